# SPDX-License-Identifier: Apache-2.0
# Unity builds: the compiler takes several sources of a target as one, so that headers are parsed and templates instantiated once for all of
# them. Each source still includes what it uses, and names of file scope are unique in a module: -DESPALIER_UNITY=OFF compiles each by itself.
option(ESPALIER_UNITY "compile several sources of a target as one" ON)

# espalier_unity(target batch): sources that are compiled together.
function(espalier_unity target batch)
  if(ESPALIER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  endif()
endfunction()
