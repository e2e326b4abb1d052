set terminal svg size 760,578 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '07-jitter.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9931 left top vertical maxrows 8
set tmargin at screen 0.7128
set bmargin at screen 0.0900
set xlabel 'ms a step'
set ylabel 'steps'
set logscale x
set xrange [2.92931:9.3075]
set xtics ('5' 5)
set logscale y
set yrange [0.769231:174.2]
set ytics ('1' 1, '10' 10, '100' 100)
plot '07-jitter.dat' index 0 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 title 'fused_stream, qwen2.5-7b, bf16, context 2048, batch 1', \
     '07-jitter.dat' index 1 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 title 'fused_graph, qwen2.5-7b, bf16, context 2048, batch 1', \
     '07-jitter.dat' index 2 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 9 ps 0.7 lw 1.4 title 'fused_stream, qwen2.5-7b, bf16, context 2048, batch 4', \
     '07-jitter.dat' index 3 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 title 'fused_graph, qwen2.5-7b, bf16, context 2048, batch 4', \
     '07-jitter.dat' index 4 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 7 ps 0.7 lw 1.4 title 'fused_stream, qwen2.5-7b, bf16, context 4096, batch 1', \
     '07-jitter.dat' index 5 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 5 ps 0.7 lw 1.4 title 'fused_graph, qwen2.5-7b, bf16, context 4096, batch 1', \
     '07-jitter.dat' index 6 using 1:2:3:4 with yerrorbars lc rgb '#0b6f78' pt 9 ps 0.7 lw 1.4 title 'fused_stream, qwen2.5-7b, bf16, context 4096, batch 4', \
     '07-jitter.dat' index 7 using 1:2:3:4 with yerrorbars lc rgb '#57606a' pt 13 ps 0.7 lw 1.4 title 'fused_graph, qwen2.5-7b, bf16, context 4096, batch 4'
