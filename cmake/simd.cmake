# The SIMD kernels: every src/cpu/simd/*.c is compiled once per instruction set, with -DB1I_ISA=<name> and its flags,
# into the objects of one OBJECT library. Which of them runs is chosen at run time. Sets B1_SIMD_OBJECTS, which is
# empty where there are no sources.

set(B1_SIMD_OBJECTS)
file(GLOB B1_SIMD_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/cpu/simd/*.c)

function(b1_add_isa name)
  if(NOT B1_SIMD_SOURCES)
    return()
  endif()
  add_library(simd_${name} OBJECT ${B1_SIMD_SOURCES})
  target_link_libraries(simd_${name} PRIVATE b1_room)
  target_compile_definitions(simd_${name} PRIVATE B1I_ISA=${name} B1I_ISA_${name}=1)
  # Vectors are passed between inlined functions only: their ABI is of no concern. Unoptimised vector code is too slow
  # to test, so that every build type optimises here; a sanitizer's checks in unrolled code take minutes to compile past
  # -O1.
  set(level -O2)
  if(B1_SANITIZE)
    set(level -O1)
  endif()
  target_compile_options(simd_${name} PRIVATE -Wno-psabi ${ARGN} $<$<CONFIG:Debug>:${level}>)
  set(B1_SIMD_OBJECTS ${B1_SIMD_OBJECTS} $<TARGET_OBJECTS:simd_${name}> PARENT_SCOPE)
endfunction()

b1_add_isa(generic)
if(B1_X86)
  set(avx2 -mavx2 -mfma -mf16c -mbmi2)
  set(avx512 ${avx2} -mavx512f -mavx512bw -mavx512vl -mavx512dq)
  b1_add_isa(avx2 ${avx2})
  b1_add_isa(avxvnni ${avx2} -mavxvnni)
  b1_add_isa(avx512 ${avx512})
  b1_add_isa(avx512vnni ${avx512} -mavx512vnni)
  b1_add_isa(avx512bf16 ${avx512} -mavx512vnni -mavx512bf16)
elseif(B1_ARM64)
  b1_add_isa(neon)
  b1_add_isa(neondot -march=armv8.2-a+dotprod+fp16)
endif()
