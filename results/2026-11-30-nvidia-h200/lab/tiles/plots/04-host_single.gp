set terminal svg size 760,645 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '04-host_single.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
unset key
set xlabel 'µs'
set yrange [-27.6:-0.4]
set ytics scale 0 ('separate_stream' -2, 'separate_graph' -3, 'fused_stream' -4, 'fused_graph' -5, 'queue_stream' -6, 'queue_graph' -7, 'semaphore_stream' -8, 'semaphore_graph' -9, 'separate_stream' -11, 'separate_graph' -12, 'fused_stream' -13, 'fused_graph' -14, 'queue_stream' -15, 'queue_graph' -16, 'semaphore_stream' -17, 'semaphore_graph' -18, 'separate_stream' -20, 'separate_graph' -21, 'fused_stream' -22, 'fused_graph' -23, 'queue_stream' -24, 'queue_graph' -25, 'semaphore_stream' -26, 'semaphore_graph' -27)
set label 'balanced' at graph 0, first -1 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'ragged' at graph 0, first -10 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'ragged-equal' at graph 0, first -19 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set xrange [0:253]
plot '04-host_single.dat' index 0 using 2:1:3:4 with xerrorbars lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 1 using 2:1:3:4 with xerrorbars lc rgb '#0b62c4' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 2 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 3 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 4 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 5 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 6 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 7 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 8 using 2:1:3:4 with xerrorbars lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 9 using 2:1:3:4 with xerrorbars lc rgb '#0b62c4' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 10 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 11 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 12 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 13 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 14 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 15 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 16 using 2:1:3:4 with xerrorbars lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 17 using 2:1:3:4 with xerrorbars lc rgb '#0b62c4' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 18 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 19 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 20 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 21 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 5 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 22 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 7 ps 0.7 lw 1.4 notitle, \
     '04-host_single.dat' index 23 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 5 ps 0.7 lw 1.4 notitle
