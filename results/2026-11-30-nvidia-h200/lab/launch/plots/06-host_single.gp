set terminal svg size 490,350 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '06-host_single.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set xlabel 'nodes'
set ylabel 'µs'
set logscale x
set xrange [3.07692:332.8]
set xtics ('5' 5, '10' 10, '20' 20, '50' 50, '100' 100, '200' 200)
set logscale y
set yrange [2.33077:762.753]
set ytics ('10' 10, '100' 100)
set xtics ('4' 4, '16' 16, '64' 64, '256' 256)
plot '06-host_single.dat' index 0 using ($1*0.934):2:3:4 with yerrorlines lc rgb '#b3246f' dt 1 pt 13 ps 0.6 lw 1.4 title 'capture', \
     '06-host_single.dat' index 1 using ($1*0.966):2:3:4 with yerrorlines lc rgb '#7a6200' dt 1 pt 13 ps 0.6 lw 1.4 title 'instantiate', \
     '06-host_single.dat' index 2 using ($1*1.000):2:3:4 with yerrorlines lc rgb '#0b6f78' dt 1 pt 13 ps 0.6 lw 1.4 title 'upload', \
     '06-host_single.dat' index 3 using ($1*1.035):2:3:4 with yerrorlines lc rgb '#57606a' dt 1 pt 13 ps 0.6 lw 1.4 title 'first_replay', \
     '06-host_single.dat' index 4 using ($1*1.071):2:3:4 with yerrorlines lc rgb '#0b62c4' dt 1 pt 13 ps 0.6 lw 1.4 title 'steady_replay'
