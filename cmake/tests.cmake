# One executable per tests/test_*.c. Labels, for `ctest -L` and `-LE`:
#   model   reads the default model (names B1_TEST_MODEL)
#   slow    takes minutes under a sanitizer or an emulator
#   browser opens pages in Chromium; without one, or without gnuplot, it skips that
#   gpu     does most of its work on an NVIDIA GPU; without one it runs what it can and skips the rest
#   fake    on a driver that stands in for one
#   alone   has no thread but those that other tests have too, so that ThreadSanitizer would see nothing new

set(B1_SLOW_TESTS test_greedy)
set(B1_ALONE_TESTS test_tokenizer test_tokenizer_files test_sampler test_kernels test_evidence test_cuda_program
                   test_report test_analysis test_chat test_config test_formats test_gguf
                   test_gguf_model test_safetensors test_rope test_argmax test_layout test_fleet
                   test_stats test_bootstrap test_compare test_ab test_cli test_explain test_jitter
                   test_report_study test_study)
# The same of tests on the stand-in driver, where the device itself runs on one thread.
set(B1_ALONE_FAKES test_cuda_program test_lab_attention test_lab_rms_softmax test_lab_tiles)
set(B1_APP)
if(TARGET batchone_app)
  set(B1_APP batchone_app)
endif()

file(GLOB TEST_SOURCES CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/test_*.c)
foreach(source ${TEST_SOURCES})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE B1I_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                             B1I_BINARY_DIR="${CMAKE_BINARY_DIR}" B1_VERSION="${PROJECT_VERSION}")
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${B1_APP} batchone_static PkgConfig::CMOCKA)
  if(name STREQUAL "test_cli") # drives the binary
    add_dependencies(test_cli batchone)
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set(labels)
  file(STRINGS ${source} hits REGEX "B1_TEST_MODEL|SmolLM2-135M-Instruct\\.Q4_1\\.gguf")
  if(hits)
    list(APPEND labels model)
  endif()
  file(STRINGS ${source} hits REGEX "tests/(cuda|lab)_rig\\.h|b1i_gpu_open\\(")
  if(hits OR name MATCHES "^test_(cuda_|gpu$|work$|profile$)")
    list(APPEND labels gpu)
  endif()
  if(name MATCHES "^test_report")
    list(APPEND labels browser)
  endif()
  if(name IN_LIST B1_SLOW_TESTS)
    list(APPEND labels slow)
  endif()
  if(name IN_LIST B1_ALONE_TESTS)
    list(APPEND labels alone)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
  if(CMAKE_CROSSCOMPILING)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT B1_EMULATED=1)
  endif()
endforeach()

# A page of all experiments, seen by a browser. What is drawn in a sanitizer's build is the same.
if(TARGET batchone AND NOT CMAKE_CROSSCOMPILING AND NOT B1_SANITIZE)
  add_test(NAME browser_report WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
           COMMAND tests/browser_report $<TARGET_FILE:batchone> ${CMAKE_BINARY_DIR}/report)
  set_tests_properties(browser_report PROPERTIES LABELS browser SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()

# On a driver that stands in for one: test_gpu, what it does without a GPU and when each call fails; test_cuda_program,
# whose programs are for GPUs of every size; test_work, whose kernels of known length the stand-in knows;
# test_profile and test_step_profile, with a CUPTI for it; test_energy, with an NVML; tests of experiments, which teach it
# their kernels.
if(TARGET test_gpu AND B1_CUDA_FOUND)
  b1_add_fatbin(tests_gpu tests/kernels/gpu.cu)
  target_compile_definitions(test_gpu PRIVATE B1_CUDA=1 B1I_TEST_FATBIN="${B1_FATBIN_FOLDER}/tests_gpu.fatbin")
  set_property(SOURCE tests/test_gpu.c APPEND PROPERTY OBJECT_DEPENDS ${B1_FATBIN_FOLDER}/tests_gpu.fatbin)
  add_library(fake_cuda SHARED tests/fake_cuda.c)
  set_property(SOURCE tests/fake_cuda.c APPEND PROPERTY COMPILE_OPTIONS -isystem ${B1_CUDA_INCLUDE}
               -I${CMAKE_SOURCE_DIR}/src -I${CMAKE_SOURCE_DIR})
  set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SOVERSION 1 C_VISIBILITY_PRESET default
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake)
  set(cupti none) # and not a real one on a driver that is none
  if(EXISTS ${B1_CUDA_INCLUDE}/cupti.h)
    set(cupti ${CMAKE_BINARY_DIR}/fake)
    add_library(fake_cupti SHARED tests/fake_cupti.c)
    set_property(SOURCE tests/fake_cupti.c APPEND PROPERTY COMPILE_OPTIONS -isystem ${B1_CUDA_INCLUDE})
    set_target_properties(fake_cupti PROPERTIES OUTPUT_NAME cupti SOVERSION 13 C_VISIBILITY_PRESET default
                          LIBRARY_OUTPUT_DIRECTORY ${cupti})
    target_link_libraries(fake_cupti PRIVATE ${CMAKE_DL_LIBS})
    add_dependencies(fake_cuda fake_cupti)
  endif()
  add_library(fake_nvml SHARED tests/fake_nvml.c) # which is there where FAKE_NVML_MW says so
  set_target_properties(fake_nvml PROPERTIES OUTPUT_NAME nvidia-ml SOVERSION 1 C_VISIBILITY_PRESET default
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fake)
  add_dependencies(fake_cuda fake_nvml)
  set(fake)
  foreach(name test_gpu test_cuda_program test_work test_profile test_lab_pointwise test_lab_rms_softmax test_lab_tiles
               test_lab_launch test_lab_attention test_energy test_step_profile)
    add_dependencies(${name} fake_cuda)
    add_test(NAME ${name}_fake COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    list(APPEND fake ${name}_fake)
    set_tests_properties(${name}_fake PROPERTIES LABELS fake)
    if(name IN_LIST B1_ALONE_FAKES)
      set_tests_properties(${name}_fake PROPERTIES LABELS "fake;alone")
    endif()
  endforeach()
  set(environment LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/fake B1_FAKE_CUDA=1 BATCHONE_CUPTI=${cupti})
  if(CMAKE_CROSSCOMPILING)
    list(APPEND environment B1_EMULATED=1)
  endif()
  set_tests_properties(${fake} PROPERTIES TIMEOUT 600 ENVIRONMENT "${environment}")
endif()
