set terminal svg size 760,368 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '02-causes.svg'
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
set xlabel 'ms a step'
set yrange [-12.6:-0.4]
set ytics scale 0 ('fused_stream' -2, 'fused_graph' -3, 'fused_stream' -5, 'fused_graph' -6, 'fused_stream' -8, 'fused_graph' -9, 'fused_stream' -11, 'fused_graph' -12)
set label 'context 2048' at screen 0.012, first -1 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'context 4096' at screen 0.012, first -4 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'context 8192' at screen 0.012, first -7 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set label 'context 16384' at screen 0.012, first -10 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set xrange [0:8.49445]
plot '02-causes.dat' index 0 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' title 'weights at the ceiling', \
     '02-causes.dat' index 1 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' title 'keys and values at the ceiling', \
     '02-causes.dat' index 2 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' title 'launch, at most (stream − graph)', \
     '02-causes.dat' index 3 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' title 'the rest', \
     '02-causes.dat' index 4 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 5 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 6 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '02-causes.dat' index 7 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 8 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 9 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '02-causes.dat' index 10 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '02-causes.dat' index 11 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 12 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 13 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '02-causes.dat' index 14 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 15 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 16 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '02-causes.dat' index 17 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '02-causes.dat' index 18 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 19 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 20 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '02-causes.dat' index 21 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 22 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 23 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#b54708' notitle, \
     '02-causes.dat' index 24 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle, \
     '02-causes.dat' index 25 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-causes.dat' index 26 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' notitle, \
     '02-causes.dat' index 27 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' notitle
