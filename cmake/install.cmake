# SPDX-License-Identifier: Apache-2.0
# The install tree: headers, one static library per module, the binary, data, and a CMake package. A user writes
#     find_package(espalier REQUIRED)
#     target_link_libraries(program PRIVATE espalier::espalier)
# espalier::espalier carries the include directory, C++20, and all modules in link order. tests/consumer proves that it works.
include(CMakePackageConfigHelpers)

add_library(espalier INTERFACE)
add_library(espalier::espalier ALIAS espalier)
target_link_libraries(espalier INTERFACE espalier_report espalier_exchange espalier_calibrate espalier_runs espalier_planner)
target_include_directories(espalier INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(espalier INTERFACE cxx_std_20)

set(library_modules base model cluster partition profile plan cost check solve search galvatron sim job planner adapt exchange runs runlog calibrate report)
set(libraries espalier espalier_options)
foreach(module ${library_modules})
  list(APPEND libraries espalier_${module})
  set_target_properties(espalier_${module} PROPERTIES EXPORT_NAME ${module})
endforeach()
set_target_properties(espalier_options PROPERTIES EXPORT_NAME options)

install(TARGETS ${libraries} EXPORT espalierTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT espalierTargets NAMESPACE espalier:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
install(DIRECTORY include/espalier DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY data models examples DESTINATION ${CMAKE_INSTALL_DATADIR}/espalier)
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET espalier_binary)
  install(TARGETS espalier_binary RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
install(FILES docs/man/espalier.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
if(TARGET espalier_rank)  # finds libtorch where it was when this was built
  set_target_properties(espalier_rank PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS espalier_rank RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

configure_package_config_file(cmake/espalierConfig.cmake.in ${PROJECT_BINARY_DIR}/espalierConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/espalierConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/espalierConfig.cmake ${PROJECT_BINARY_DIR}/espalierConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/espalier)
