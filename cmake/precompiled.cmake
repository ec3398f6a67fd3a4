# SPDX-License-Identifier: Apache-2.0
# Precompiled headers: parsing the standard library was most of a build from nothing. One list for the modules, one with GoogleTest for the
# tests. A source still includes what it uses: -DESPALIER_PRECOMPILED_HEADERS=OFF builds without them.
option(ESPALIER_PRECOMPILED_HEADERS "precompile the standard library and the test framework" ON)
set(ESPALIER_STANDARD_HEADERS
  <algorithm> <array> <charconv> <cmath> <cstdint> <functional> <limits> <map> <memory> <numeric> <optional> <set> <string> <string_view>
  <tuple> <utility> <vector>)

# espalier_precompiled(name LIBRARIES … HEADERS …): an object library that other targets take their precompiled header from.
function(espalier_precompiled name)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;HEADERS" ${ARGN})
  if(NOT ESPALIER_PRECOMPILED_HEADERS)
    return()
  endif()
  file(WRITE ${PROJECT_BINARY_DIR}/generated/${name}.cpp "")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  target_link_libraries(${name} PRIVATE espalier_options ${ARG_LIBRARIES})
  target_precompile_headers(${name} PRIVATE ${ESPALIER_STANDARD_HEADERS} ${ARG_HEADERS})
endfunction()

# espalier_use_precompiled(target name): `target` takes the header of `name`.
function(espalier_use_precompiled target name)
  if(ESPALIER_PRECOMPILED_HEADERS)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()
