set terminal svg size 760,464 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '13-jitter.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9914 left top vertical maxrows 2
set tmargin at screen 0.8879
set bmargin at screen 0.1121
set xlabel 'ms a step'
set ylabel 'steps'
set logscale x
set xrange [1.98286:3.76052]
set xtics ('2' 2)
set logscale y
set yrange [0.769231:260]
set ytics ('1' 1, '10' 10, '100' 100)
plot '13-jitter.dat' index 0 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 title 'fused_pdl, llama-3.1-8b, q4_1, context 2048, batch 1', \
     '13-jitter.dat' index 1 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 5 ps 0.7 lw 1.4 title 'fused_pdl, llama-3.1-8b, q4_0, context 2048, batch 1'
