set terminal svg size 760,502 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '09-graphs.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9920 left top vertical maxrows 4
set tmargin at screen 0.8207
set bmargin at screen 0.1036
set xlabel 'context'
set ylabel 'stream / graph'
set logscale x
set xrange [1575.38:21299.2]
set xtics ('2000' 2000, '5000' 5000, '10000' 10000, '20000' 20000)
set yrange [0.983486:1.22294]
set xtics ('2048' 2048, '4096' 4096, '8192' 8192, '16384' 16384)
plot '09-graphs.dat' index 0 using 1:2:3:4 with yerrorlines lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 dt 1 title 'qwen2.5-7b, bf16, separate, batch 1', \
     '09-graphs.dat' index 1 using 1:2:3:4 with yerrorlines lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 dt 2 title 'qwen2.5-7b, bf16, fused, batch 1', \
     '09-graphs.dat' index 2 using 1:2:3:4 with yerrorlines lc rgb '#1a7f37' pt 9 ps 0.7 lw 1.4 dt 3 title 'llama-3.1-8b, bf16, separate, batch 1', \
     '09-graphs.dat' index 3 using 1:2:3:4 with yerrorlines lc rgb '#7c3fd0' pt 13 ps 0.7 lw 1.4 dt 1 title 'llama-3.1-8b, bf16, fused, batch 1', \
     '09-graphs.dat' index 4 using 1:2:3:4 with yerrorlines lc rgb '#b3246f' pt 7 ps 0.7 lw 1.4 dt 1 title 'mistral-7b, bf16, separate, batch 1', \
     '09-graphs.dat' index 5 using 1:2:3:4 with yerrorlines lc rgb '#7a6200' pt 5 ps 0.7 lw 1.4 dt 2 title 'mistral-7b, bf16, fused, batch 1', \
     '09-graphs.dat' index 6 using 1:2:3:4 with yerrorlines lc rgb '#0b6f78' pt 9 ps 0.7 lw 1.4 dt 3 title 'llama-3.2-1b, bf16, separate, batch 1', \
     '09-graphs.dat' index 7 using 1:2:3:4 with yerrorlines lc rgb '#57606a' pt 13 ps 0.7 lw 1.4 dt 1 title 'llama-3.2-1b, bf16, fused, batch 1', \
     1 lc rgb '#5d646d' dt 3 lw 0.8 notitle
