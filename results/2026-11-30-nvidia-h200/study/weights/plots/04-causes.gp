set terminal svg size 760,177 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '04-causes.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9774 left top vertical maxrows 3
set tmargin at screen 0.5989
set bmargin at screen 0.2938
set xlabel 'ms a step'
set yrange [-2.6:-0.4]
set ytics scale 0 ('fused_pdl' -2)
set label 'context 2048' at screen 0.012, first -1 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set xrange [0:2.98851]
plot '04-causes.dat' index 0 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b62c4' title 'weights at the ceiling', \
     '04-causes.dat' index 1 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#0b6f78' title 'keys and values at the ceiling', \
     '04-causes.dat' index 2 using (($2+$3)/2):1:2:3:($1-0.36):($1+0.36) with boxxyerror fs solid noborder lc rgb '#57606a' title 'the rest'
