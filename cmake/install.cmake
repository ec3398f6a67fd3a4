message(STATUS "install rules: see cmake/install.cmake")
