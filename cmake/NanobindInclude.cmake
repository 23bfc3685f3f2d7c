# Sets NANOBIND_FOLDER, which has nanobind's include/, src/ and ext/: the interpreter's own package, or the system's.
if(NOT NANOBIND_FOLDER)
    execute_process(COMMAND ${Python3_EXECUTABLE} -c "import nanobind, os; print(os.path.dirname(nanobind.__file__))"
                    OUTPUT_VARIABLE NANOBIND_OF_PYTHON OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    find_path(NANOBIND_FOLDER src/nb_combined.cpp HINTS ${NANOBIND_OF_PYTHON} PATHS /usr/share/nanobind)
endif()
if(NOT NANOBIND_FOLDER)
    message(FATAL_ERROR "nanobind is needed by the tests: pip install nanobind, or apt-get install nanobind-dev")
endif()
