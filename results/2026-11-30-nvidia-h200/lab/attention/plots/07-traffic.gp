set terminal svg size 760,420 dynamic noenhanced font 'sans-serif,13' linewidth 1
set encoding utf8
set output '07-traffic.svg'
set border 3 lc rgb '#5d646d' lw 0.8
set tics nomirror out scale 0.5,0.25 textcolor rgb '#5d646d'
set grid lt 1 lc rgb '#d8dce1' lw 0.6
set errorbars small
set pointintervalbox 1.4
set xlabel offset 0,0.5 textcolor rgb '#5d646d'
set ylabel textcolor rgb '#5d646d'
set key tmargin left horizontal maxcols 2 reverse Left samplen 2.2 width 1 textcolor rgb '#1c2024'
set key outside right top vertical reverse Left samplen 0.5 width 0 textcolor rgb '#1c2024'
set xlabel 'logical bytes of an invocation'
set ylabel 'µs'
set format x '%.0s %cB'
set logscale x
set xrange [3.22639e+06:6.97932e+08]
set logscale y
set yrange [5.66828:1257.61]
set ytics ('10' 10, '100' 100, '1000' 1000)
set label '100 GB/s' at 1.25761e+08,1257.61 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide0(x) = x / 100000
set label '1000 GB/s' at 6.97932e+08,697.932 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide1(x) = x / 1e+06
set label '10000 GB/s' at 6.97932e+08,69.7932 right offset -0.4,-0.6 font 'sans-serif,11' textcolor rgb '#5d646d'
guide2(x) = x / 1e+07
plot guide0(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide1(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     guide2(x) lc rgb '#5d646d' dt 3 lw 0.8 notitle, \
     '07-traffic.dat' index 0 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 6 ps 0.7 lw 1.2 title 'llama-3-8b: math_stream', \
     '07-traffic.dat' index 1 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 4 ps 0.7 lw 1.2 title 'llama-3-8b: math_graph', \
     '07-traffic.dat' index 2 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 8 ps 0.7 lw 1.2 title 'llama-3-8b: math_pdl', \
     '07-traffic.dat' index 3 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 6 ps 0.7 lw 1.2 title 'llama-3-8b: onepass_stream', \
     '07-traffic.dat' index 4 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 4 ps 0.7 lw 1.2 title 'llama-3-8b: onepass_graph', \
     '07-traffic.dat' index 5 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 8 ps 0.7 lw 1.2 title 'llama-3-8b: onepass_pdl', \
     '07-traffic.dat' index 6 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 6 ps 0.7 lw 1.2 title 'llama-3-8b: split_stream', \
     '07-traffic.dat' index 7 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 4 ps 0.7 lw 1.2 title 'llama-3-8b: split_graph', \
     '07-traffic.dat' index 8 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 8 ps 0.7 lw 1.2 title 'llama-3-8b: split_pdl', \
     '07-traffic.dat' index 9 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 6 ps 0.7 lw 1.2 title 'llama-3-8b: unified_stream', \
     '07-traffic.dat' index 10 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 4 ps 0.7 lw 1.2 title 'llama-3-8b: unified_graph', \
     '07-traffic.dat' index 11 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 8 ps 0.7 lw 1.2 title 'llama-3-8b: unified_pdl', \
     '07-traffic.dat' index 12 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 6 ps 0.7 lw 1.2 title 'llama-3-8b: fallback_stream', \
     '07-traffic.dat' index 13 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 4 ps 0.7 lw 1.2 title 'llama-3-8b: fallback_graph', \
     '07-traffic.dat' index 14 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 8 ps 0.7 lw 1.2 title 'llama-3-8b: fallback_pdl', \
     '07-traffic.dat' index 15 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 6 ps 0.7 lw 1.2 title 'llama-3-8b: engine_stream', \
     '07-traffic.dat' index 16 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 4 ps 0.7 lw 1.2 title 'llama-3-8b: engine_graph', \
     '07-traffic.dat' index 17 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 8 ps 0.7 lw 1.2 title 'llama-3-8b: engine_pdl', \
     '07-traffic.dat' index 18 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 6 ps 0.7 lw 1.2 title 'qwen2.5-7b: math_stream', \
     '07-traffic.dat' index 19 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 4 ps 0.7 lw 1.2 title 'qwen2.5-7b: math_graph', \
     '07-traffic.dat' index 20 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 8 ps 0.7 lw 1.2 title 'qwen2.5-7b: math_pdl', \
     '07-traffic.dat' index 21 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 6 ps 0.7 lw 1.2 title 'qwen2.5-7b: onepass_stream', \
     '07-traffic.dat' index 22 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 4 ps 0.7 lw 1.2 title 'qwen2.5-7b: onepass_graph', \
     '07-traffic.dat' index 23 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 8 ps 0.7 lw 1.2 title 'qwen2.5-7b: onepass_pdl', \
     '07-traffic.dat' index 24 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 6 ps 0.7 lw 1.2 title 'qwen2.5-7b: split_stream', \
     '07-traffic.dat' index 25 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 4 ps 0.7 lw 1.2 title 'qwen2.5-7b: split_graph', \
     '07-traffic.dat' index 26 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 8 ps 0.7 lw 1.2 title 'qwen2.5-7b: split_pdl', \
     '07-traffic.dat' index 27 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 6 ps 0.7 lw 1.2 title 'qwen2.5-7b: unified_stream', \
     '07-traffic.dat' index 28 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 4 ps 0.7 lw 1.2 title 'qwen2.5-7b: unified_graph', \
     '07-traffic.dat' index 29 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 8 ps 0.7 lw 1.2 title 'qwen2.5-7b: unified_pdl', \
     '07-traffic.dat' index 30 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 6 ps 0.7 lw 1.2 title 'qwen2.5-7b: fallback_stream', \
     '07-traffic.dat' index 31 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 4 ps 0.7 lw 1.2 title 'qwen2.5-7b: fallback_graph', \
     '07-traffic.dat' index 32 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 8 ps 0.7 lw 1.2 title 'qwen2.5-7b: fallback_pdl', \
     '07-traffic.dat' index 33 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 6 ps 0.7 lw 1.2 title 'qwen2.5-7b: engine_stream', \
     '07-traffic.dat' index 34 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 4 ps 0.7 lw 1.2 title 'qwen2.5-7b: engine_graph', \
     '07-traffic.dat' index 35 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 8 ps 0.7 lw 1.2 title 'qwen2.5-7b: engine_pdl', \
     '07-traffic.dat' index 36 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 6 ps 0.7 lw 1.2 title 'llama-3.2-1b: math_stream', \
     '07-traffic.dat' index 37 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 4 ps 0.7 lw 1.2 title 'llama-3.2-1b: math_graph', \
     '07-traffic.dat' index 38 using 1:2:3:4 with yerrorbars lc rgb '#0b62c4' pt 8 ps 0.7 lw 1.2 title 'llama-3.2-1b: math_pdl', \
     '07-traffic.dat' index 39 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 6 ps 0.7 lw 1.2 title 'llama-3.2-1b: onepass_stream', \
     '07-traffic.dat' index 40 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 4 ps 0.7 lw 1.2 title 'llama-3.2-1b: onepass_graph', \
     '07-traffic.dat' index 41 using 1:2:3:4 with yerrorbars lc rgb '#b54708' pt 8 ps 0.7 lw 1.2 title 'llama-3.2-1b: onepass_pdl', \
     '07-traffic.dat' index 42 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 6 ps 0.7 lw 1.2 title 'llama-3.2-1b: split_stream', \
     '07-traffic.dat' index 43 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 4 ps 0.7 lw 1.2 title 'llama-3.2-1b: split_graph', \
     '07-traffic.dat' index 44 using 1:2:3:4 with yerrorbars lc rgb '#1a7f37' pt 8 ps 0.7 lw 1.2 title 'llama-3.2-1b: split_pdl', \
     '07-traffic.dat' index 45 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 6 ps 0.7 lw 1.2 title 'llama-3.2-1b: unified_stream', \
     '07-traffic.dat' index 46 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 4 ps 0.7 lw 1.2 title 'llama-3.2-1b: unified_graph', \
     '07-traffic.dat' index 47 using 1:2:3:4 with yerrorbars lc rgb '#7c3fd0' pt 8 ps 0.7 lw 1.2 title 'llama-3.2-1b: unified_pdl', \
     '07-traffic.dat' index 48 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 6 ps 0.7 lw 1.2 title 'llama-3.2-1b: fallback_stream', \
     '07-traffic.dat' index 49 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 4 ps 0.7 lw 1.2 title 'llama-3.2-1b: fallback_graph', \
     '07-traffic.dat' index 50 using 1:2:3:4 with yerrorbars lc rgb '#b3246f' pt 8 ps 0.7 lw 1.2 title 'llama-3.2-1b: fallback_pdl', \
     '07-traffic.dat' index 51 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 6 ps 0.7 lw 1.2 title 'llama-3.2-1b: engine_stream', \
     '07-traffic.dat' index 52 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 4 ps 0.7 lw 1.2 title 'llama-3.2-1b: engine_graph', \
     '07-traffic.dat' index 53 using 1:2:3:4 with yerrorbars lc rgb '#7a6200' pt 8 ps 0.7 lw 1.2 title 'llama-3.2-1b: engine_pdl'
