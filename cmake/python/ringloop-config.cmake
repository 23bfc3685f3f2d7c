# find_package(ringloop COMPONENTS python), for extension modules: the runtime in the installed Python package.
#
#     list(APPEND CMAKE_PREFIX_PATH <what `python -c "import ringloop; print(ringloop.get_cmake_dir())"` prints>)
#     find_package(ringloop REQUIRED COMPONENTS python)
#     target_link_libraries(demo PRIVATE ringloop::python)
#
# Targets: ringloop::ringloop, the shared library of the runtime with its headers; ringloop::python, the same for
# extension modules; ringloop::python_embed, the same with libpython, for programs that host Python. That one exists where
# the interpreter has a libpython; the component python_embed asks for it, and is told why there is none. A module finds the library again beside itself (in the folder that holds the package, or one or
# two below), or because `import ringloop` has loaded it.
get_filename_component(ringloop_package "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
file(GLOB ringloop_library "${ringloop_package}/lib/libringloop.so.*")
if(NOT ringloop_library)
    set(ringloop_FOUND FALSE)
    set(ringloop_NOT_FOUND_MESSAGE "this ringloop package has no library: reinstall it (${ringloop_package})")
    return()
endif()
list(GET ringloop_library 0 ringloop_library)
include(CMakeFindDependencyMacro)
find_dependency(Threads)
if(NOT TARGET ringloop::ringloop)
    add_library(ringloop::ringloop SHARED IMPORTED)
    set_target_properties(ringloop::ringloop PROPERTIES
        IMPORTED_LOCATION "${ringloop_library}" INTERFACE_INCLUDE_DIRECTORIES "${ringloop_package}/include"
        INTERFACE_COMPILE_FEATURES cxx_std_20 INTERFACE_LINK_LIBRARIES Threads::Threads)
    add_library(ringloop::python INTERFACE IMPORTED)
    set_target_properties(ringloop::python PROPERTIES INTERFACE_LINK_LIBRARIES ringloop::ringloop)
endif()
set(ringloop_python_FOUND TRUE)
# The interpreter: the one that the project has found, if it fits, or that of the package's own environment.
if(NOT TARGET ringloop::python_embed)
    include("${CMAKE_CURRENT_LIST_DIR}/ringloop-embed.cmake")
    file(GLOB ringloop_native RELATIVE "${ringloop_package}" "${ringloop_package}/_native.*.so")
    string(REGEX REPLACE "^_native[.](.*)[.]so$" "\\1" ringloop_soabi "${ringloop_native}")
    string(REGEX REPLACE "^cpython-3([0-9]+).*$" "3.\\1" ringloop_python_version "${ringloop_soabi}")
    get_filename_component(ringloop_packages "${ringloop_package}" DIRECTORY)
    get_filename_component(ringloop_environment "${ringloop_package}/../../../../bin" ABSOLUTE)
    find_program(ringloop_python_command NAMES python${ringloop_python_version} python3 HINTS "${ringloop_environment}"
                 NO_CACHE)
    foreach(ringloop_command IN ITEMS "${Python_EXECUTABLE}" "${Python3_EXECUTABLE}" "${ringloop_python_command}")
        if(ringloop_command AND NOT TARGET ringloop::libpython)
            ringloop_find_libpython(ringloop::libpython "${ringloop_command}" "${ringloop_soabi}")
            if(TARGET ringloop::libpython)
                add_library(ringloop::python_embed INTERFACE IMPORTED)
                # Where the program finds that interpreter's packages, and ringloop, unless it is told otherwise.
                set_target_properties(ringloop::python_embed PROPERTIES
                    INTERFACE_LINK_LIBRARIES "ringloop::python;ringloop::libpython"
                    INTERFACE_COMPILE_DEFINITIONS
                    "RINGLOOP_EMBED_PYTHON=\"${ringloop_command}\";RINGLOOP_EMBED_PACKAGES=\"${ringloop_packages}\"")
            endif()
        endif()
    endforeach()
endif()
if(TARGET ringloop::python_embed)
    set(ringloop_python_embed_FOUND TRUE)
elseif(ringloop_FIND_REQUIRED_python_embed)
    set(ringloop_FOUND FALSE)
    set(ringloop_NOT_FOUND_MESSAGE "no program can host this ringloop's Python: ${ringloop_libpython_missing}")
endif()
# For the modules that are made from here on: CMake drops what a link option says when it installs them.
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/ringloop/lib" "$ORIGIN/../ringloop/lib" "$ORIGIN/../../ringloop/lib")
foreach(ringloop_component IN LISTS ringloop_FIND_COMPONENTS)
    if(NOT ringloop_component MATCHES "^(python|python_embed|runtime)$")
        set(ringloop_FOUND FALSE)
        set(ringloop_NOT_FOUND_MESSAGE "the Python package has the component python, not ${ringloop_component}: \
install ringloop's C++ library for it")
    endif()
endforeach()
