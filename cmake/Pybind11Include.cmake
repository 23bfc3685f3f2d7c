# Sets PYBIND11_INCLUDE. pybind11 is header-only: the interpreter's own package first, then the system's.
if(NOT PYBIND11_INCLUDE)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import pybind11; print(pybind11.get_include())"
                    OUTPUT_VARIABLE PYBIND11_OF_PYTHON OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(PYBIND11_INCLUDE pybind11/pybind11.h HINTS ${PYBIND11_OF_PYTHON})
endif()
if(NOT PYBIND11_INCLUDE)
    message(FATAL_ERROR "pybind11 is needed by the kernels' module and the tests' simulation: "
                        "apt-get install pybind11-dev, or pip install pybind11 "
                        "(or do without: -DRINGLOOP_KERNELS=OFF)")
endif()
