# SPDX-License-Identifier: Apache-2.0
# Unity builds: the compiler takes several sources of a target as one, so that headers are parsed and templates instantiated once for all of
# them. Each source still includes what it uses, and names of file scope are unique in a module: -DESPALIER_UNITY=OFF compiles each by itself.
option(ESPALIER_UNITY "compile several sources of a target as one" ON)

# espalier_unity(target batch): sources that are compiled together.
# allocation_test.cpp stands alone: it replaces operator new, which GCC then sees next to the delete of others.
function(espalier_unity target batch)
  if(ESPALIER_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    get_target_property(sources ${target} SOURCES)
    list(FILTER sources INCLUDE REGEX "/allocation_test\\.cpp$")
    if(sources)
      set_source_files_properties(${sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    endif()
  endif()
endfunction()
