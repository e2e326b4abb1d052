set terminal svg size 760,620 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '03-causes.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9935 left top vertical maxrows 2
set tmargin at screen 0.9161
set bmargin at screen 0.0839
set xlabel 'ms a step'
set yrange [-24.6:-0.4]
set ytics scale 0 ('separate_stream' -2, 'separate_graph' -3, 'fused_stream' -4, 'fused_graph' -5, 'fused_pdl' -6, 'separate_stream' -8, 'separate_graph' -9, 'fused_stream' -10, 'fused_graph' -11, 'fused_pdl' -12, 'separate_stream' -14, 'separate_graph' -15, 'fused_stream' -16, 'fused_graph' -17, 'fused_pdl' -18, 'separate_stream' -20, 'separate_graph' -21, 'fused_stream' -22, 'fused_graph' -23, 'fused_pdl' -24)
set label 'context 2048' at screen 0.012, first -1 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'context 4096' at screen 0.012, first -7 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'context 8192' at screen 0.012, first -13 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'context 16384' at screen 0.012, first -19 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set xrange [0:5.97743]
plot '03-causes.dat' index 0 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' title 'weights at the ceiling', \
     '03-causes.dat' index 1 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' title 'keys and values at the ceiling', \
     '03-causes.dat' index 2 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' title 'launch, at most (stream − graph)', \
     '03-causes.dat' index 3 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' title 'the rest', \
     '03-causes.dat' index 4 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 5 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 6 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 7 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 8 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 9 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 10 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 11 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 12 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 13 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 14 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 15 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 16 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 17 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 18 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 19 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 20 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 21 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 22 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 23 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 24 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 25 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 26 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 27 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 28 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 29 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 30 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 31 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 32 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 33 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 34 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 35 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 36 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 37 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 38 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 39 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 40 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 41 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 42 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 43 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 44 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 45 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 46 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 47 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 48 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 49 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 50 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 51 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 52 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 53 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 54 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 55 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 56 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 57 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 58 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 59 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 60 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '03-causes.dat' index 61 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 62 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 63 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 64 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '03-causes.dat' index 65 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '03-causes.dat' index 66 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '03-causes.dat' index 67 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle
