set terminal svg size 490,443 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '02-attention-host.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key at screen 0.012, screen 0.9910 left top vertical maxrows 3
set tmargin at screen 0.8397
set bmargin at screen 0.1174
set xlabel 'context'
set ylabel 'µs a layer'
set logscale x
set xrange [1575.38:21299.2]
set xtics ('2000' 2000, '5000' 5000, '10000' 10000, '20000' 20000)
set logscale y
set yrange [10.8031:168.437]
set ytics ('20' 20, '50' 50, '100' 100)
set xtics ('2048' 2048, '4096' 4096, '8192' 8192, '16384' 16384)
plot '02-attention-host.dat' index 0 using 1:2:3:4 with yerrorlines lc rgb '#0b62c4' pt 7 ps 0.7 lw 1.4 dt 1 title 'math_stream', \
     '02-attention-host.dat' index 1 using 1:2:3:4 with yerrorlines lc rgb '#b54708' pt 7 ps 0.7 lw 1.4 dt 1 title 'onepass_stream', \
     '02-attention-host.dat' index 2 using 1:2:3:4 with yerrorlines lc rgb '#1a7f37' pt 7 ps 0.7 lw 1.4 dt 1 title 'split_stream', \
     '02-attention-host.dat' index 3 using 1:2:3:4 with yerrorlines lc rgb '#7c3fd0' pt 7 ps 0.7 lw 1.4 dt 1 title 'unified_stream', \
     '02-attention-host.dat' index 4 using 1:2:3:4 with yerrorlines lc rgb '#b3246f' pt 7 ps 0.7 lw 1.4 dt 1 title 'fallback_stream', \
     '02-attention-host.dat' index 5 using 1:2:3:4 with yerrorlines lc rgb '#7a6200' pt 7 ps 0.7 lw 1.4 dt 1 title 'engine_stream'
