# SPDX-License-Identifier: Apache-2.0
# Unit tests sit beside the code (src/<module>/*_test.cpp): one executable per module. tests/<kind>/*_test.cpp cross modules.
include(GoogleTest)
find_package(rapidcheck QUIET)
espalier_precompiled(espalier_precompiled_tests LIBRARIES GTest::gtest GTest::gmock rapidcheck HEADERS <gtest/gtest.h> <gmock/gmock.h> <rapidcheck.h>)
if(TARGET espalier_precompiled_tests)  # compiled as the tests are: programs, not libraries
  set_target_properties(espalier_precompiled_tests PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(espalier_precompiled_tests PRIVATE -fPIE)
endif()
# Where sources and data lie, as a header, so that only the tests that read them are compiled for one place.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/data/source_dir.h CONTENT
  "#pragma once\n#define ESPALIER_SOURCE_DIR \"${PROJECT_SOURCE_DIR}\"\n")
function(espalier_tests name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  if(NOT ARG_SOURCES)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} GTest::gtest_main GTest::gmock rapidcheck)
  espalier_use_precompiled(${name} espalier_precompiled_tests)
  espalier_unity(${name} 8)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()
foreach(module base launch storage solve runlog model cluster partition profile plan cost check search galvatron sim job planner adapt exchange runs calibrate report cli)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${module}/*_test.cpp)
  set(tested espalier_${module})
  if(module STREQUAL "planner")
    list(APPEND tested espalier_report)  # an answer is also what it says
  endif()
  espalier_tests(${module}_tests SOURCES ${sources} DEPENDS ${tested})
endforeach()
foreach(module lab reference)  # outside src/
  get_target_property(folder espalier_${module} ESPALIER_FOLDER)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*_test.cpp)
  espalier_tests(${module}_tests SOURCES ${sources} DEPENDS espalier_${module})
endforeach()
foreach(kind golden property mutation scenario)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${kind}/*_test.cpp)
  espalier_tests(${kind}_tests SOURCES ${sources} DEPENDS espalier_planner espalier_report espalier_adapt espalier_exchange)
endforeach()
# Its files hand tables of mutations to each other and keep helpers of equal names: each is compiled by itself.
set_target_properties(mutation_tests PROPERTIES UNITY_BUILD OFF)
# The executor and plans that are run: only where libtorch is there (cmake/runtime.cmake). Unit tests compute with tensors in their own
# process. Tests of plans fork the ranks of a plan before any tensor exists, and are therefore another program.
if(TARGET espalier_runtime)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/runtime/*_test.cpp)
  espalier_tests(runtime_unit_tests SOURCES ${sources} DEPENDS espalier_runtime)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/runtime/*.cpp)
  espalier_tests(runtime_tests SOURCES ${sources} DEPENDS espalier_runtime)
  foreach(tests runtime_unit_tests runtime_tests)
    target_include_directories(${tests} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_link_libraries(${tests} PRIVATE espalier_torch)  # tensors
  endforeach()
  set_tests_properties(runtime_unit_tests PROPERTIES ENVIRONMENT "OMP_NUM_THREADS=1")  # ranks are threads
  # A shard trains its plans one after the other, with eight processes: mostly waiting for messages, so that
  # two shards run beside each other; each ends within its time-out also where all plans are trained.
  set(shards 5)
  foreach(shard RANGE 1 ${shards})
    set(test runtime_tests)
    if(shard GREATER 1)
      set(test runtime_tests_${shard})
      add_test(NAME ${test} COMMAND runtime_tests)
    endif()
    math(EXPR index "${shard} - 1")
    set_tests_properties(${test} PROPERTIES TIMEOUT 1200 ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${index}")
  endforeach()
  add_test(NAME runtime_faults COMMAND ${PROJECT_SOURCE_DIR}/tests/runtime/faults.py $<TARGET_FILE:espalier_binary> ${PROJECT_SOURCE_DIR})
  set_tests_properties(runtime_faults PROPERTIES TIMEOUT 3600)
else()
  foreach(tests runtime_unit_tests runtime_tests)
    add_test(NAME ${tests} COMMAND ${CMAKE_COMMAND} -E echo "skipped: libtorch is not installed (./dev runtime)")
    set_tests_properties(${tests} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped")
  endforeach()
endif()
# The flow-level network beside another simulator's, where that is installed (Debian: libsimgrid-dev).
find_library(SIMGRID_LIBRARY simgrid)
find_path(SIMGRID_INCLUDE simgrid/s4u.hpp)
if(SIMGRID_LIBRARY AND SIMGRID_INCLUDE AND NOT ESPALIER_SANITIZE)
  espalier_tests(simgrid_tests SOURCES ${PROJECT_SOURCE_DIR}/tests/simgrid/simgrid_test.cpp DEPENDS espalier_sim ${SIMGRID_LIBRARY})
  target_include_directories(simgrid_tests SYSTEM PRIVATE ${SIMGRID_INCLUDE})
else()
  message(STATUS "SimGrid not found: the flow-level network is not compared with it (Debian: libsimgrid-dev)")
  add_test(NAME simgrid_tests COMMAND ${CMAKE_COMMAND} -E echo "skipped: SimGrid is not installed")
  set_tests_properties(simgrid_tests PROPERTIES SKIP_REGULAR_EXPRESSION "skipped")
endif()
file(GLOB scripts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cli/*.sh ${PROJECT_SOURCE_DIR}/tests/cli/*.py)
foreach(script ${scripts})
  get_filename_component(stem ${script} NAME_WE)
  if(NOT stem MATCHES "^_")
    add_test(NAME cli_${stem} COMMAND ${script} $<TARGET_FILE:espalier_binary> ${PROJECT_SOURCE_DIR})
    set_tests_properties(cli_${stem} PROPERTIES TIMEOUT 600 ENVIRONMENT "ESPALIER_SANITIZE=${ESPALIER_SANITIZE}")
  endif()
endforeach()

# The page of `espalier report`: built from its sources, and opened where a Chromium is installed (Debian: chromium).
add_test(NAME report_page COMMAND ${PROJECT_SOURCE_DIR}/scripts/report_page.py --check)
add_test(NAME report_browser COMMAND ${PROJECT_SOURCE_DIR}/tests/report/browser.py $<TARGET_FILE:espalier_binary> ${PROJECT_SOURCE_DIR})
set_tests_properties(report_browser PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)

# The documentation as a site, where `./dev docs` has installed MkDocs.
add_test(NAME docs_site COMMAND ${PROJECT_SOURCE_DIR}/tests/docs/site.py ${PROJECT_SOURCE_DIR})
set_tests_properties(docs_site PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)

# What is exported is read by the frameworks' own parsers, where `./dev parsers` has installed them.
add_test(NAME engine_parsers COMMAND ${PROJECT_SOURCE_DIR}/tests/engines/parsers.py $<TARGET_FILE:espalier_binary> ${PROJECT_SOURCE_DIR})
set_tests_properties(engine_parsers PROPERTIES TIMEOUT 1500 SKIP_RETURN_CODE 77)

# The dictionaries of keys, against the installed frameworks where there are any.
add_test(NAME framework_keys COMMAND ${PROJECT_SOURCE_DIR}/tests/imports/known_keys.py ${PROJECT_SOURCE_DIR})
set_tests_properties(framework_keys PROPERTIES TIMEOUT 1500 SKIP_RETURN_CODE 77)

# The server for agents under the client of the package mcp, where a Python has it (pip install mcp).
add_test(NAME mcp_client COMMAND ${PROJECT_SOURCE_DIR}/tests/mcp/client.py $<TARGET_FILE:espalier_binary> ${PROJECT_SOURCE_DIR})
set_tests_properties(mcp_client PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)

# The Python package, where `./dev python` has installed it.
add_test(NAME python COMMAND ${PROJECT_SOURCE_DIR}/tests/python/package.py ${PROJECT_SOURCE_DIR})
add_test(NAME python_doctests COMMAND ${PROJECT_SOURCE_DIR}/tests/python/doctests.py ${PROJECT_SOURCE_DIR})
add_test(NAME python_typing COMMAND ${PROJECT_SOURCE_DIR}/tests/python/typing_test.py ${PROJECT_SOURCE_DIR})
set_tests_properties(python python_doctests python_typing PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)

# The house itself: who includes whom, licence lines, and whether the installed package can be used.
find_package(Python3 REQUIRED COMPONENTS Interpreter)
add_test(NAME layers COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_layers.py ${PROJECT_SOURCE_DIR})
add_test(NAME layers_self_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_layers.py --self-test)
add_test(NAME style COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_style.py ${PROJECT_SOURCE_DIR})
add_test(NAME style_self_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_style.py --self-test)
add_test(NAME words COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_words.py ${PROJECT_SOURCE_DIR})
add_test(NAME words_self_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_words.py --self-test)
add_test(NAME python_types COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/python_types.py --check)
add_test(NAME published_runs COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/published_runs.py --check)
add_test(NAME test_counts COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/count_tests.py ${PROJECT_SOURCE_DIR})
add_test(NAME test_counts_self_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/count_tests.py --self-test)
add_test(NAME structure_counts COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/count_structure.py ${PROJECT_SOURCE_DIR})
add_test(NAME structure_counts_self_test COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/count_structure.py --self-test)
add_test(NAME spdx COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_spdx.py ${PROJECT_SOURCE_DIR})
add_test(NAME doc_links COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_links.py ${PROJECT_SOURCE_DIR})
if(TARGET espalier_binary)  # rule tables, worked example, README output: see scripts/check_docs.py
  add_test(NAME docs COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/check_docs.py --binary $<TARGET_FILE:espalier_binary>)
endif()
if(NOT ESPALIER_SANITIZE)
  add_test(NAME consumer COMMAND ${PROJECT_SOURCE_DIR}/scripts/consumer_test.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(consumer PROPERTIES TIMEOUT 600)
endif()
if(TARGET espalier_binary)
  # Under a sanitizer the large clusters would take minutes and prove nothing new.
  set(example_options "")
  if(ESPALIER_SANITIZE)
    set(example_options --devices 64)
  endif()
  add_test(NAME examples
           COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/run_examples.py $<TARGET_FILE:espalier_binary> ${example_options})
  set_tests_properties(examples PROPERTIES TIMEOUT 600)
endif()

# GCC 12 takes the strings and vectors of aggregates that a test writes out in braces for uninitialised at -O3: a false alarm.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/storage/checkpoint_test.cpp ${PROJECT_SOURCE_DIR}/src/plan/gradient_exchange_test.cpp
  PROPERTIES COMPILE_OPTIONS "$<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>")
