# One executable per tests/test_*.c. Labels, for `ctest -L` and `-LE`:
#   model   reads the default model (names B1_TEST_MODEL)
#   slow    takes minutes under a sanitizer or an emulator
# A test that shares the machine with another is slower than it says: those that measure time run alone.

set(B1_SLOW_TESTS test_greedy)
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
  if(name IN_LIST B1_SLOW_TESTS)
    list(APPEND labels slow)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT 600)
  if(CMAKE_CROSSCOMPILING)
    set_tests_properties(${name} PROPERTIES ENVIRONMENT B1_EMULATED=1)
  endif()
endforeach()
