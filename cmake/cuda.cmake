# CUDA: finds nvcc, compiles every src/cuda/kernels/*.cu to a fatbin, and lets the library know. Sets B1_CUDA_FOUND.
#
#   B1_CUDA        AUTO: where nvcc is found; ON: fails without it; OFF
#   B1_CUDA_ARCHS  architectures as nvcc numbers them; fewer make short builds while working ("90a")
#
# Fatbins are device code, the same for every preset and host: they lie in one folder of the source tree's build/, by
# toolkit and architectures, and are compiled once (tools/fatbin). No GPU and no driver is needed to build.

set(B1_CUDA AUTO CACHE STRING "build the GPU engine: AUTO (where nvcc is found), ON or OFF")
set_property(CACHE B1_CUDA PROPERTY STRINGS AUTO ON OFF)
set(default_archs 80 86 87 89 90a 100 110 120)
set(B1_CUDA_ARCHS "${default_archs}" CACHE STRING "GPU architectures to compile kernels for")
set(B1_CUDA_FOUND FALSE)

# Says why there is no CUDA, and stops where it was demanded.
function(b1_no_cuda why)
  if(B1_CUDA STREQUAL "AUTO")
    message(STATUS "CPU only: ${why}")
  else()
    message(FATAL_ERROR "B1_CUDA is ${B1_CUDA}, but ${why}")
  endif()
endfunction()

# Lists in B1_ARCHS those of B1_CUDA_ARCHS that the toolkit knows, PTX of the newest at the end.
function(b1_find_archs)
  execute_process(COMMAND ${B1_NVCC} --list-gpu-arch OUTPUT_VARIABLE known OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "\n" ";" known "${known}")
  set(archs)
  set(newest 0)
  foreach(arch ${B1_CUDA_ARCHS})
    string(REGEX REPLACE "[a-z]$" "" number ${arch})
    if("compute_${number}" IN_LIST known)
      list(APPEND archs ${arch})
      if(number GREATER newest)
        set(newest ${number})
        set(newest_name ${arch})
      endif()
    elseif(NOT B1_CUDA_ARCHS STREQUAL default_archs)
      message(FATAL_ERROR "B1_CUDA_ARCHS: this nvcc knows no architecture ${arch}")
    endif()
  endforeach()
  if(newest_name STREQUAL newest) # PTX of an architecture with a letter serves no other
    list(APPEND archs ptx:${newest})
  endif()
  set(B1_ARCHS ${archs} PARENT_SCOPE)
endfunction()

function(b1_find_cuda)
  get_filename_component(cudacxx "$ENV{CUDACXX}" DIRECTORY)
  find_program(B1_NVCC nvcc HINTS ${cudacxx} PATHS /usr/local/cuda/bin /opt/cuda/bin
               ${CMAKE_SOURCE_DIR}/.cache/cuda/nvidia/cu13/bin) # where tools/nvcc puts one
  mark_as_advanced(B1_NVCC)
  if(NOT B1_NVCC)
    b1_no_cuda("no nvcc in PATH, in /usr/local/cuda/bin or as CUDACXX (tools/nvcc gets one)")
    return()
  endif()
  execute_process(COMMAND ${B1_NVCC} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(NOT text MATCHES "release ([0-9]+\\.[0-9]+)")
    b1_no_cuda("${B1_NVCC} does not run")
    return()
  endif()
  set(version ${CMAKE_MATCH_1})
  if(version VERSION_LESS 12.4)
    b1_no_cuda("${B1_NVCC} is of CUDA ${version}, and 12.4 or later is needed")
    return()
  endif()
  # It needs a C++ compiler of its own choosing; and it alone knows where its headers lie, for it may be a script.
  file(WRITE ${CMAKE_BINARY_DIR}/cuda/probe.cu "#include <cuda_bf16.h>\n__global__ void k() {}\n")
  execute_process(COMMAND ${B1_NVCC} -std=c++17 -cubin -o cuda/probe.cubin cuda/probe.cu RESULT_VARIABLE failed
                  WORKING_DIRECTORY ${CMAKE_BINARY_DIR} ERROR_VARIABLE text OUTPUT_VARIABLE text)
  if(failed)
    b1_no_cuda("${B1_NVCC} cannot compile (it needs g++): ${text}")
    return()
  endif()
  execute_process(COMMAND ${B1_NVCC} --dryrun -cubin cuda/probe.cu WORKING_DIRECTORY ${CMAKE_BINARY_DIR}
                  ERROR_VARIABLE text OUTPUT_VARIABLE text)
  if(text MATCHES "_HERE_=([^\n]+)")
    get_filename_component(include ${CMAKE_MATCH_1}/../include REALPATH)
  endif()
  if(NOT EXISTS "${include}/cuda.h")
    b1_no_cuda("the headers of ${B1_NVCC} have no cuda.h")
    return()
  endif()
  b1_find_archs()
  string(SHA256 hash "${version};${B1_ARCHS}")
  string(SUBSTRING ${hash} 0 8 hash)
  set(B1_CUDA_FOUND TRUE PARENT_SCOPE)
  set(B1_CUDA_INCLUDE ${include} PARENT_SCOPE)
  set(B1_ARCHS ${B1_ARCHS} PARENT_SCOPE)
  set(B1_FATBIN_FOLDER ${CMAKE_SOURCE_DIR}/build/fatbin-${hash} PARENT_SCOPE)
  string(REPLACE ";" " " shown "${B1_ARCHS}")
  message(STATUS "CUDA ${version}: ${B1_NVCC}, for ${shown}")
endfunction()

# Compiles `source` to B1_FATBIN_FOLDER/<name>.fatbin.
function(b1_add_fatbin name source)
  add_custom_command(OUTPUT ${B1_FATBIN_FOLDER}/${name}.fatbin
                     COMMAND tools/fatbin ${B1_NVCC} 2 ${source} ${B1_FATBIN_FOLDER}/${name}.fatbin ${B1_ARCHS} --
                             ${B1_KERNEL_HEADERS}
                     DEPENDS ${source} ${B1_KERNEL_HEADERS} tools/fatbin
                     WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMENT "nvcc ${name}.cu" VERBATIM)
endfunction()

# Adds every kernel source of `folder` as <prefix><name>, and writes their list as the macro `map` of `header`.
function(b1_list_kernels folder prefix map header)
  file(GLOB kernels CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${folder}/*.cu)
  set(names)
  foreach(source ${kernels})
    get_filename_component(name ${source} NAME_WE)
    b1_add_fatbin(${prefix}${name} ${source})
    list(APPEND B1_FATBINS ${B1_FATBIN_FOLDER}/${prefix}${name}.fatbin)
    string(APPEND names " X(${prefix}${name})")
  endforeach()
  set(B1_FATBINS ${B1_FATBINS} PARENT_SCOPE)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/${header}
       CONTENT "#define B1I_FATBIN_FOLDER \"${B1_FATBIN_FOLDER}\"\n#define ${map}(X)${names}\n")
endfunction()

if(B1_CUDA)
  b1_find_cuda()
endif()
if(B1_CUDA_FOUND)
  set(B1_FATBINS)
  # The lab's, as lab_<name>, then the engine's; the lists are what fatbins.c of either room reads.
  file(GLOB B1_KERNEL_HEADERS CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} lab/kernels/*.cuh lab/kernels/*args.h)
  b1_list_kernels(lab/kernels lab_ B1I_LAB_FATBIN_MAP lab_fatbin_list.h)
  file(GLOB B1_KERNEL_HEADERS CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} src/cuda/kernels/*.cuh src/cuda/*args.h
       src/gpu/*args.h)
  b1_list_kernels(src/cuda/kernels "" B1I_FATBIN_MAP fatbin_list.h)
  # One place tells tools where the fatbins and their logs of this build lie.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/cuda/folder CONTENT "${B1_FATBIN_FOLDER}\n")
  add_custom_target(kernels DEPENDS ${B1_FATBINS})

  target_compile_definitions(b1_room INTERFACE B1_CUDA=1)
  foreach(source src/cuda/fatbins.c lab/fatbins.c)
    set_property(SOURCE ${source} APPEND PROPERTY INCLUDE_DIRECTORIES ${CMAKE_BINARY_DIR}/cuda)
    set_property(SOURCE ${source} APPEND PROPERTY OBJECT_DEPENDS "${B1_FATBINS}")
  endforeach()
  set_property(SOURCE lab/fatbins.c APPEND PROPERTY COMPILE_DEFINITIONS B1_CUDA=1) # of no target with the room's
  # <cuda.h> is for src/gpu alone.
  file(GLOB gpu CONFIGURE_DEPENDS src/gpu/*.c)
  set_property(SOURCE ${gpu} APPEND PROPERTY COMPILE_OPTIONS -isystem ${B1_CUDA_INCLUDE})
endif()
