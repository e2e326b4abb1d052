set terminal svg size 490,350 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '03-bandwidth.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set xlabel 'working set, bytes'
set ylabel 'GB/s'
set logscale x
set xrange [1.66361e+06:7.19743e+08]
set xtics ('10000000' 10000000, '100000000' 100000000)
set yrange [0:14630.6]
set xtics ('2.0625 Mi' 2162688, '4.125 Mi' 4325376, '8.25 Mi' 8650752, '16.5 Mi' 17301504, '33 Mi' 34603008, '66 Mi' 69206016, '132 Mi' 138412032, '264 Mi' 276824064, '528 Mi' 553648128)
plot '03-bandwidth.dat' index 0 using ($1*0.934):2:3:4 with yerrorlines lc rgb '#b54708' dt 1 pt 13 ps 0.6 lw 1.4 title 'load16x4', \
     '03-bandwidth.dat' index 1 using ($1*0.966):2:3:4 with yerrorlines lc rgb '#7a6200' dt 1 pt 13 ps 0.6 lw 1.4 title 'bulk'
