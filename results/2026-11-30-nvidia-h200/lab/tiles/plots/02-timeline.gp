set terminal svg size 1040,1230 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '02-timeline.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
unset key
set multiplot
set lmargin at screen 0.06
set rmargin at screen 0.985
set ylabel 'SM' offset 0.6,0
unset grid
set grid x lt 1 lc rgb '#d8dce1' lw 0.6
set xrange [0:224.462]
set tmargin at screen 0.97561
set bmargin at screen 0.76098
set yrange [131.5:-0.5]
set label 1 'separate_graph' at graph 0, graph 1 offset 0,0.75 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set format x ''
set ytics ('0' 0, '16' 16, '32' 32, '48' 48, '64' 64, '80' 80, '96' 96, '112' 112, '128' 128)
plot '02-timeline.dat' index 0 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-timeline.dat' index 1 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#b54708' notitle
set tmargin at screen 0.73659
set bmargin at screen 0.52195
set yrange [131.5:-0.5]
set label 1 'fused_graph' at graph 0, graph 1 offset 0,0.75 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set format x ''
set ytics ('0' 0, '16' 16, '32' 32, '48' 48, '64' 64, '80' 80, '96' 96, '112' 112, '128' 128)
plot '02-timeline.dat' index 2 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-timeline.dat' index 3 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#b54708' notitle
set tmargin at screen 0.49756
set bmargin at screen 0.28293
set yrange [131.5:-0.5]
set label 1 'queue_graph' at graph 0, graph 1 offset 0,0.75 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set format x ''
set ytics ('0' 0, '16' 16, '32' 32, '48' 48, '64' 64, '80' 80, '96' 96, '112' 112, '128' 128)
plot '02-timeline.dat' index 4 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-timeline.dat' index 5 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#b54708' notitle
set tmargin at screen 0.25854
set bmargin at screen 0.04390
set yrange [131.5:-0.5]
set label 1 'semaphore_graph' at graph 0, graph 1 offset 0,0.75 left font 'sans-serif:Bold,13' textcolor rgb '#1c2024'
set format x '%g'
set ytics ('0' 0, '16' 16, '32' 32, '48' 48, '64' 64, '80' 80, '96' 96, '112' 112, '128' 128)
set xlabel 'µs from the first A of each panel'
plot '02-timeline.dat' index 6 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#0b62c4' notitle, \
     '02-timeline.dat' index 7 using (($1+$2)/2):3:1:2:($3-0.5):($3+0.5) with boxxyerror fs solid noborder lc rgb '#b54708' notitle
unset multiplot
