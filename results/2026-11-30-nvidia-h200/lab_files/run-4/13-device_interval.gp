set terminal svg size 490,350 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '13-device_interval.svg'
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
set xrange [0.769231:83.2]
set xtics ('1' 1, '2' 2, '5' 5, '10' 10, '20' 20, '50' 50)
set logscale y
set yrange [2.02163:378.671]
set ytics ('10' 10, '100' 100)
set xtics ('1' 1, '16' 16, '64' 64)
plot '13-device_interval.dat' index 0 using ($1*0.934):2:3:4 with yerrorlines lc rgb '#0b62c4' dt 1 pt 7 ps 0.6 lw 1.4 title 'stream', \
     '13-device_interval.dat' index 1 using ($1*0.966):2:3:4 with yerrorlines lc rgb '#b54708' dt 2 pt 5 ps 0.6 lw 1.4 title 'graph', \
     '13-device_interval.dat' index 2 using ($1*1.000):2:3:4 with yerrorlines lc rgb '#1a7f37' dt 3 pt 9 ps 0.6 lw 1.4 title 'pdl'
