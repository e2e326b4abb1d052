set terminal svg size 760,420 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '07-traffic.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key outside right top vertical reverse Left samplen 0.5 width 0 textcolor rgb '#1c2024'
set xlabel 'logical bytes of an invocation'
set ylabel 'µs'
set format x '%.0s %cB'
set logscale x
set xrange [1575.38:5.23449e+08]
set logscale y
set yrange [1.49029:135.861]
set ytics ('2' 2, '5' 5, '10' 10, '20' 20, '50' 50, '100' 100)
set label '0.1 GB/s' at 13586.1,135.861 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide0(x) = x / 100
set label '1 GB/s' at 135861,135.861 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide1(x) = x / 1000
set label '10 GB/s' at 1.35861e+06,135.861 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide2(x) = x / 10000
set label '100 GB/s' at 1.35861e+07,135.861 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide3(x) = x / 100000
set label '1000 GB/s' at 1.35861e+08,135.861 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide4(x) = x / 1e+06
set label '10000 GB/s' at 5.23449e+08,52.3449 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide5(x) = x / 1e+07
plot guide0(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide1(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide2(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide3(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide4(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide5(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     '07-traffic.dat' index 0 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.2 title 'separate_stream', \
     '07-traffic.dat' index 1 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 5 ps 0.7 lw 1.2 title 'separate_graph', \
     '07-traffic.dat' index 2 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 9 ps 0.7 lw 1.2 title 'separate_pdl', \
     '07-traffic.dat' index 3 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 7 ps 0.7 lw 1.2 title 'fused_stream', \
     '07-traffic.dat' index 4 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 5 ps 0.7 lw 1.2 title 'fused_graph', \
     '07-traffic.dat' index 5 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 6 ps 0.7 lw 1.2 title 'rotating: separate_stream', \
     '07-traffic.dat' index 6 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 4 ps 0.7 lw 1.2 title 'rotating: separate_graph', \
     '07-traffic.dat' index 7 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 8 ps 0.7 lw 1.2 title 'rotating: separate_pdl', \
     '07-traffic.dat' index 8 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 6 ps 0.7 lw 1.2 title 'rotating: fused_stream', \
     '07-traffic.dat' index 9 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 4 ps 0.7 lw 1.2 title 'rotating: fused_graph'
