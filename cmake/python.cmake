# SPDX-License-Identifier: Apache-2.0
# The Python package: python/src as the module espalier._native (nanobind), python/espalier around it, the binary inside. `pip install .` comes here
# by scikit-build-core (pyproject.toml); nothing else builds it. What is installed for it is the component "python".
find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module OPTIONAL_COMPONENTS Development.SABIModule)
unset(nanobind_DIR CACHE)  # an isolated build has it in another place every time
execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir OUTPUT_VARIABLE nanobind_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_package(nanobind CONFIG REQUIRED)

file(GLOB python_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/src/*.cpp)
file(GLOB public_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/include/espalier/*.h)
set(docstrings ${PROJECT_BINARY_DIR}/generated/python/docstrings.h)
add_custom_command(OUTPUT ${docstrings}
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/python/docstrings.py ${PROJECT_SOURCE_DIR}/include/espalier ${docstrings}
  DEPENDS ${PROJECT_SOURCE_DIR}/python/docstrings.py ${public_headers})

# STABLE_ABI takes effect from Python 3.12 on: one wheel for all later ones.
nanobind_add_module(espalier_python STABLE_ABI NB_STATIC NB_SUPPRESS_WARNINGS ${python_sources} ${docstrings})
set_target_properties(espalier_python PROPERTIES OUTPUT_NAME _native)
target_include_directories(espalier_python PRIVATE ${PROJECT_BINARY_DIR}/generated/python)
target_link_libraries(espalier_python PRIVATE espalier)
espalier_unity(espalier_python 16)

install(TARGETS espalier_python LIBRARY DESTINATION espalier COMPONENT python)
install(TARGETS espalier_binary RUNTIME DESTINATION espalier/bin COMPONENT python)
install(FILES LICENSE THIRD_PARTY_NOTICES.md DESTINATION espalier COMPONENT python)
if(NOT CMAKE_CROSSCOMPILING)  # the stub is asked of the module itself
  nanobind_add_stub(espalier_python_stub MODULE _native OUTPUT ${PROJECT_BINARY_DIR}/python/_native.pyi
    PYTHON_PATH $<TARGET_FILE_DIR:espalier_python> DEPENDS espalier_python)
  install(FILES ${PROJECT_BINARY_DIR}/python/_native.pyi DESTINATION espalier COMPONENT python)
endif()
