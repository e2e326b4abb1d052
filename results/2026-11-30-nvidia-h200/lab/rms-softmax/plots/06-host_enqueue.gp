set terminal svg size 490,350 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '06-host_enqueue.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set xlabel 'width'
set ylabel 'µs'
set logscale x
set xrange [196.923:16048.5]
set xtics ('200' 200, '500' 500, '1000' 1000, '2000' 2000, '5000' 5000, '10000' 10000)
set logscale y
set yrange [0.906126:25.5212]
set ytics ('1' 1, '2' 2, '5' 5, '10' 10, '20' 20)
set xtics ('256' 256, '1000' 1000, '4 Ki' 4096, '12345' 12345)
plot '06-host_enqueue.dat' index 0 using ($1*0.934):2:3:4 with yerrorlines lc rgb '#0b62c4' dt 1 pt 7 ps 0.6 lw 1.4 title 'separate_stream', \
     '06-host_enqueue.dat' index 1 using ($1*0.966):2:3:4 with yerrorlines lc rgb '#0b62c4' dt 2 pt 5 ps 0.6 lw 1.4 title 'separate_graph', \
     '06-host_enqueue.dat' index 2 using ($1*1.000):2:3:4 with yerrorlines lc rgb '#0b62c4' dt 3 pt 9 ps 0.6 lw 1.4 title 'separate_pdl', \
     '06-host_enqueue.dat' index 3 using ($1*1.035):2:3:4 with yerrorlines lc rgb '#b54708' dt 1 pt 7 ps 0.6 lw 1.4 title 'fused_stream', \
     '06-host_enqueue.dat' index 4 using ($1*1.071):2:3:4 with yerrorlines lc rgb '#b54708' dt 2 pt 5 ps 0.6 lw 1.4 title 'fused_graph', \
     '06-host_enqueue.dat' index 5 using ($1*0.934):2:3:4 with yerrorlines lc rgb '#1a7f37' dt 1 pt 7 ps 0.6 lw 1.4 title 'persistent_stream', \
     '06-host_enqueue.dat' index 6 using ($1*0.966):2:3:4 with yerrorlines lc rgb '#1a7f37' dt 2 pt 5 ps 0.6 lw 1.4 title 'persistent_graph'
