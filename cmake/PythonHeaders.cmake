# Finds the Python that the extension modules are built for, or says what to install.
find_package(Python3 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python3_FOUND)
    message(FATAL_ERROR "ringloop needs Python with its headers, which ${Python3_EXECUTABLE} has not: "
                        "apt-get install python3-dev")
endif()
