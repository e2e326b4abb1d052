set terminal svg size 760,345 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '11-formats.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9884 left top vertical maxrows 3
set tmargin at screen 0.7942
set bmargin at screen 0.1507
set xlabel 'times as fast as the format it is held against'
set yrange [-10.6:-0.4]
set ytics scale 0 ('f16' -2, 'q8_0' -3, 'q6_k' -4, 'q5_k' -5, 'q5_1' -6, 'q5_0' -7, 'q4_k' -8, 'q4_1' -9, 'q4_0' -10)
set label 'llama-3.1-8b, fused_pdl, context 2048, batch 1' at screen 0.012, first -1 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set arrow from 1, graph 0 to 1, graph 1 nohead dt 3 lc rgb '#5d646d' lw 1
set xrange [0:4.1037]
plot '11-formats.dat' index 0 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 title 'expected: bytes, scales and K included', \
     '11-formats.dat' index 1 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 title 'realised', \
     '11-formats.dat' index 2 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 3 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 4 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 5 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 6 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 7 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 8 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 9 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 10 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 11 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 12 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 13 using 2:1 with points lc rgb '#b54708' pt 12 ps 0.8 lw 1.4 title 'expected: weights / 4 + K, as published', \
     '11-formats.dat' index 14 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 15 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 16 using 2:1 with points lc rgb '#b54708' pt 12 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 17 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 18 using 2:1 with points lc rgb '#0b62c4' pt 4 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 19 using 2:1 with points lc rgb '#b54708' pt 12 ps 0.8 lw 1.4 notitle, \
     '11-formats.dat' index 20 using 2:1 with points lc rgb '#1a7f37' pt 7 ps 0.8 lw 1.4 notitle
