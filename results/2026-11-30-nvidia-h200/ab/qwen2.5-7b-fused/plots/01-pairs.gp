set terminal svg size 760,368 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '01-pairs.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9891 left top vertical maxrows 2
set tmargin at screen 0.8587
set bmargin at screen 0.1413
set xlabel 'A / B'
set yrange [-12.6:-0.4]
set ytics scale 0 ('session 1' -1, 'session 2' -2, 'session 3' -3, 'session 4' -4, 'session 5' -5, 'session 6' -6, 'session 7' -7, 'session 8' -8, 'session 9' -9, 'session 10' -10, '95 %% interval' -11, 'plain percentile' -12)
set arrow from 1, graph 0 to 1, graph 1 nohead dt 3 lc rgb '#5d646d' lw 1
set xrange [0.996618:1.04565]
plot '01-pairs.dat' index 0 using 2:1 with points lc rgb '#0b62c4' pt 7 ps 0.8 lw 1.4 title 'A ran first', \
     '01-pairs.dat' index 1 using 2:1 with points lc rgb '#b54708' pt 4 ps 0.8 lw 1.4 title 'B ran first', \
     '01-pairs.dat' index 2 using 2:1 with points lc rgb '#0b62c4' pt 7 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 3 using 2:1 with points lc rgb '#b54708' pt 4 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 4 using 2:1 with points lc rgb '#0b62c4' pt 7 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 5 using 2:1 with points lc rgb '#b54708' pt 4 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 6 using 2:1 with points lc rgb '#0b62c4' pt 7 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 7 using 2:1 with points lc rgb '#b54708' pt 4 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 8 using 2:1 with points lc rgb '#0b62c4' pt 7 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 9 using 2:1 with points lc rgb '#b54708' pt 4 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 10 using 2:1:3:4 with xerrorbars lc rgb '#1c2024' pt 13 ps 0.8 lw 1.4 notitle, \
     '01-pairs.dat' index 11 using 2:1:3:4 with xerrorbars lc rgb '#5d646d' pt 12 ps 0.8 lw 1.4 notitle
