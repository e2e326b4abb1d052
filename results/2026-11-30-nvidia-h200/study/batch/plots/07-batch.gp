set terminal svg size 760,445 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '07-batch.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9910 left top vertical maxrows 1
set tmargin at screen 0.9258
set bmargin at screen 0.1169
set xlabel 'sequences a step'
set ylabel 'throughput over batch 1'
set xrange [-0.64:8.64]
set yrange [0:4.28712]
set xtics ('1' 1, '2' 2, '3' 3, '4' 4, '6' 6, '8' 8)
plot '07-batch.dat' index 0 using 1:2:3:4 with yerrorlines lc rgb '#0b62c4' pt 9 ps 0.7 lw 1.4 dt 3 title 'llama-3.1-8b, bf16, fused_pdl, context 2048', \
     x lc rgb '#5d646d' dt 3 lw 0.8 notitle
