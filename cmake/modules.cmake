# SPDX-License-Identifier: Apache-2.0
# One static library per module (src/<module>/), so that the linker enforces what scripts/check_layers.py checks.
# Sources are globbed: a new file needs no edit here. *_test.cpp belong to the tests.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(pugixml REQUIRED)
find_path(ESPALIER_TOMLPLUSPLUS toml++/toml.h REQUIRED)  # headers only

add_library(espalier_options INTERFACE)
target_include_directories(espalier_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>)
target_compile_options(espalier_options INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion>)
if(ESPALIER_WERROR)
  target_compile_options(espalier_options INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
# GCC 12 reports std::string concatenation as overlapping or oversized copies at -O2 and above (GCC bug 105651): a false alarm. With a
# precompiled header it no longer knows that the copy stands in a system header.
target_compile_options(espalier_options INTERFACE "$<BUILD_INTERFACE:$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-stringop-overflow;-Wno-stringop-overread;-Wno-array-bounds>>")
# Equal answers on every run and machine of an architecture: no fused multiply-add contraction, no fast math.
target_compile_options(espalier_options INTERFACE $<BUILD_INTERFACE:-ffp-contract=off>)
if(ESPALIER_SANITIZE)
  target_compile_options(espalier_options INTERFACE -fsanitize=${ESPALIER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(espalier_options INTERFACE -fsanitize=${ESPALIER_SANITIZE})
endif()

# Files under data/ that ship inside the library: data/<name>.yaml -> generated/data/<name>.h, `embedded::<name>`.
function(espalier_embed target file symbol)
  set(out ${PROJECT_BINARY_DIR}/generated/data/${symbol}.h)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DIN=${PROJECT_SOURCE_DIR}/${file} -DOUT=${out} -DSYMBOL=${symbol}
            -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${PROJECT_SOURCE_DIR}/${file} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake)
  target_sources(${target} PRIVATE ${out})
endfunction()

include(${CMAKE_CURRENT_LIST_DIR}/precompiled.cmake)
espalier_precompiled(espalier_precompiled_standard)

# espalier_module(name DEPENDS modules… LIBRARIES libraries… [IN folder] [PRECOMPILED target] [ONCE]): src/<name>/*.cpp, or those of another
# folder, as a library. PRECOMPILED: whose precompiled header it takes, unless that of the standard library. ONCE: what runs once a command, not once a candidate; optimising it further takes a third of its compile time and gains nothing.
function(espalier_module name)
  cmake_parse_arguments(ARG "ONCE" "IN;PRECOMPILED" "DEPENDS;LIBRARIES" ${ARGN})
  if(NOT ARG_PRECOMPILED)
    set(ARG_PRECOMPILED espalier_precompiled_standard)
  endif()
  if(NOT ARG_IN)
    set(ARG_IN src/${name})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${ARG_IN}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$|/main\\.cpp$")
  if(NOT sources)
    message(STATUS "module ${name}: no sources yet")
    file(WRITE ${PROJECT_BINARY_DIR}/generated/empty_${name}.cpp "")
    set(sources ${PROJECT_BINARY_DIR}/generated/empty_${name}.cpp)
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND espalier_)
  add_library(espalier_${name} STATIC ${sources})
  set_target_properties(espalier_${name} PROPERTIES ESPALIER_FOLDER ${ARG_IN})
  target_link_libraries(espalier_${name} PUBLIC espalier_options ${ARG_DEPENDS} PRIVATE ${ARG_LIBRARIES})
  espalier_module_options(espalier_${name} "${ARG_ONCE}" ${ARG_PRECOMPILED})
endfunction()

function(espalier_module_options target once precompiled)
  if(once)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  espalier_use_precompiled(${target} ${precompiled})
endfunction()

espalier_module(base LIBRARIES yaml-cpp $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
espalier_module(solve DEPENDS base)
espalier_module(runlog DEPENDS base ONCE)
espalier_module(model DEPENDS base ONCE)
espalier_module(cluster DEPENDS base ONCE)
espalier_module(partition DEPENDS base model)
espalier_module(plan DEPENDS base model cluster partition)
espalier_module(profile DEPENDS base model cluster plan)
espalier_module(cost DEPENDS base model cluster partition profile plan)
espalier_module(check DEPENDS base model cluster profile plan ONCE)
espalier_module(search DEPENDS base solve model cluster partition profile plan cost LIBRARIES Threads::Threads)
espalier_module(galvatron DEPENDS base solve model cluster plan ONCE)
espalier_module(sim DEPENDS base solve model cluster partition plan cost LIBRARIES ZLIB::ZLIB)
espalier_module(job DEPENDS base model cluster profile plan ONCE)
espalier_module(planner DEPENDS base model cluster partition profile plan cost check search sim job LIBRARIES Threads::Threads)
espalier_module(adapt DEPENDS base solve model cluster plan cost search sim job planner ONCE)
espalier_module(exchange DEPENDS base runlog model cluster profile plan galvatron job planner LIBRARIES pugixml::pugixml ONCE)
espalier_module(runs DEPENDS base model cluster profile plan job planner LIBRARIES Threads::Threads ONCE)
espalier_module(calibrate DEPENDS base runlog model cluster profile plan cost job planner runs LIBRARIES Threads::Threads ONCE)
espalier_module(launch DEPENDS base ONCE)
espalier_module(storage DEPENDS base model plan)
espalier_module(report DEPENDS base model cluster plan cost sim check job planner adapt runs calibrate ONCE)
espalier_module(cli DEPENDS launch calibrate galvatron exchange planner adapt runs report LIBRARIES $<BUILD_INTERFACE:CLI11::CLI11> ONCE)
if(EXISTS ${PROJECT_SOURCE_DIR}/data/devices.yaml)
  espalier_embed(espalier_cluster data/devices.yaml devices_yaml)
endif()
espalier_embed(espalier_cluster data/calibration/fabrics.yaml fabric_calibration_yaml)
espalier_embed(espalier_cluster data/calibration/devices.yaml device_calibration_yaml)
espalier_embed(espalier_cluster data/calibration/training.yaml training_calibration_yaml)
espalier_embed(espalier_plan data/engines.yaml engines_yaml)
espalier_embed(espalier_plan data/calibration/frameworks.yaml framework_calibration_yaml)
espalier_embed(espalier_planner data/recipes.yaml recipes_yaml)
espalier_embed(espalier_planner data/calibration/intervals.yaml intervals_yaml)
espalier_embed(espalier_planner data/calibration/memory.yaml memory_errors_yaml)
espalier_embed(espalier_calibrate data/published_runs.tsv published_runs_tsv)
espalier_embed(espalier_job data/framework_defaults.yaml framework_defaults_yaml)
espalier_embed(espalier_exchange data/assertions.yaml assertions_yaml)
foreach(dictionary megatron torchtitan deepspeed accelerate launchers programs)
  espalier_embed(espalier_exchange data/dictionary/${dictionary}.yaml dictionary_${dictionary}_yaml)
endforeach()
espalier_embed(espalier_report src/report/page/report.html report_page)
# Results say which build made them: its version, and a hash of the figures that ship with it (src/planner/made_by.cpp).
set(espalier_shipped_figures "")
foreach(figures devices.yaml recipes.yaml engines.yaml framework_defaults.yaml calibration/devices.yaml calibration/training.yaml calibration/fabrics.yaml calibration/frameworks.yaml calibration/intervals.yaml)
  file(SHA256 ${PROJECT_SOURCE_DIR}/data/${figures} figures_hash)
  string(APPEND espalier_shipped_figures ${figures_hash})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/data/${figures})
endforeach()
string(SHA256 espalier_shipped_figures "${espalier_shipped_figures}")
string(SUBSTRING ${espalier_shipped_figures} 0 16 espalier_shipped_figures)
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/planner/made_by.cpp PROPERTIES COMPILE_DEFINITIONS
                            "ESPALIER_VERSION=\"${PROJECT_VERSION}\";ESPALIER_SHIPPED_FIGURES=\"${espalier_shipped_figures}\"")
target_compile_definitions(espalier_cli PRIVATE ESPALIER_VERSION="${PROJECT_VERSION}")

if(EXISTS ${PROJECT_SOURCE_DIR}/src/cli/main.cpp)
  add_executable(espalier_binary src/cli/main.cpp)
  set_target_properties(espalier_binary PROPERTIES OUTPUT_NAME espalier RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(espalier_binary PRIVATE espalier_cli)
endif()

# What tests, benchmarks and tools/ need and the product does not: outside src/, not installed, not compiled by who only plans.
#   lab        our own fits: coefficients of devices, fabrics and frameworks that ship, and the judgement of them (docs/accuracy.md)
#   reference  what others' planners do, restated, to compare with: Galvatron version 1, decision trees
espalier_module(lab IN lab DEPENDS base cluster plan cost planner runs calibrate LIBRARIES Threads::Threads ONCE)
target_include_directories(espalier_lab PUBLIC ${PROJECT_SOURCE_DIR})
espalier_module(reference IN tests/reference DEPENDS base solve galvatron ONCE)
target_include_directories(espalier_reference PUBLIC ${PROJECT_SOURCE_DIR}/tests)
set_target_properties(espalier_reference PROPERTIES EXCLUDE_FROM_ALL ON)

# Programs for developers, not installed.
foreach(tool accuracy calibrate_devices calibrate_fabrics)
  string(REPLACE "_" "-" program espalier-${tool})
  add_executable(espalier_${tool} tools/${tool}.cpp)
  set_target_properties(espalier_${tool} PROPERTIES OUTPUT_NAME ${program} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  target_link_libraries(espalier_${tool} PRIVATE espalier_lab)
endforeach()
