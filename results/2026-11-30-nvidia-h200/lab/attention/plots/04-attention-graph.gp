set terminal svg size 490,500 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '04-attention-graph.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9920 left top vertical maxrows 6
set tmargin at screen 0.7440
set bmargin at screen 0.1040
set xlabel 'context'
set ylabel 'µs a layer'
set logscale x
set xrange [1575.38:21299.2]
set xtics ('2000' 2000, '5000' 5000, '10000' 10000, '20000' 20000)
set logscale y
set yrange [4.52785:156.504]
set ytics ('5' 5, '10' 10, '20' 20, '50' 50, '100' 100)
set xtics ('2048' 2048, '4096' 4096, '8192' 8192, '16384' 16384)
plot '04-attention-graph.dat' index 0 using 1:2:3:4 with yerrorlines lc rgb '#0b62c4' pt 5 ps 0.7 lw 1.4 dt 2 title 'math_graph', \
     '04-attention-graph.dat' index 1 using 1:2:3:4 with yerrorlines lc rgb '#0b62c4' pt 9 ps 0.7 lw 1.4 dt 3 title 'math_pdl', \
     '04-attention-graph.dat' index 2 using 1:2:3:4 with yerrorlines lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 dt 2 title 'onepass_graph', \
     '04-attention-graph.dat' index 3 using 1:2:3:4 with yerrorlines lc rgb '#b54708' pt 9 ps 0.7 lw 1.4 dt 3 title 'onepass_pdl', \
     '04-attention-graph.dat' index 4 using 1:2:3:4 with yerrorlines lc rgb '#1a7f37' pt 5 ps 0.7 lw 1.4 dt 2 title 'split_graph', \
     '04-attention-graph.dat' index 5 using 1:2:3:4 with yerrorlines lc rgb '#1a7f37' pt 9 ps 0.7 lw 1.4 dt 3 title 'split_pdl', \
     '04-attention-graph.dat' index 6 using 1:2:3:4 with yerrorlines lc rgb '#7c3fd0' pt 5 ps 0.7 lw 1.4 dt 2 title 'unified_graph', \
     '04-attention-graph.dat' index 7 using 1:2:3:4 with yerrorlines lc rgb '#7c3fd0' pt 9 ps 0.7 lw 1.4 dt 3 title 'unified_pdl', \
     '04-attention-graph.dat' index 8 using 1:2:3:4 with yerrorlines lc rgb '#b3246f' pt 5 ps 0.7 lw 1.4 dt 2 title 'fallback_graph', \
     '04-attention-graph.dat' index 9 using 1:2:3:4 with yerrorlines lc rgb '#b3246f' pt 9 ps 0.7 lw 1.4 dt 3 title 'fallback_pdl', \
     '04-attention-graph.dat' index 10 using 1:2:3:4 with yerrorlines lc rgb '#7a6200' pt 5 ps 0.7 lw 1.4 dt 2 title 'engine_graph', \
     '04-attention-graph.dat' index 11 using 1:2:3:4 with yerrorlines lc rgb '#7a6200' pt 9 ps 0.7 lw 1.4 dt 3 title 'engine_pdl'
