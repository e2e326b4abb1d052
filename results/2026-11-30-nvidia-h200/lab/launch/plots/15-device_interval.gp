set terminal svg size 760,372 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '15-device_interval.svg'
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
set yrange [-14.6:-0.4]
set ytics scale 0 ('load' -2, 'idle' -4, 'loaded' -5, 'load' -6, 'relaxed' -8, 'ordered' -9, 'relaxed' -11, 'ordered' -12, 'load' -14)
set label 'loaded' at graph 0, first -1 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'barrier' at graph 0, first -3 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'flag, idle' at graph 0, first -7 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'flag, loaded' at graph 0, first -10 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'flag' at graph 0, first -13 left offset 0.6,0 font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set logscale x
set xrange [0.179902:8.54955]
set xtics ('0.2' 0.2, '0.5' 0.5, '1' 1, '2' 2, '5' 5)
plot '15-device_interval.dat' index 0 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 1 using 2:1:3:4 with xerrorbars lc rgb '#b54708' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 2 using 2:1:3:4 with xerrorbars lc rgb '#1a7f37' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 3 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 4 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 5 using 2:1:3:4 with xerrorbars lc rgb '#b3246f' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 6 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 7 using 2:1:3:4 with xerrorbars lc rgb '#b3246f' pt 13 ps 0.7 lw 1.4 notitle, \
     '15-device_interval.dat' index 8 using 2:1:3:4 with xerrorbars lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 notitle
