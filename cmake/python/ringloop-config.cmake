# find_package(ringloop COMPONENTS python), for extension modules: the runtime in the installed Python package.
#
#     list(APPEND CMAKE_PREFIX_PATH <what `python -c "import ringloop; print(ringloop.get_cmake_dir())"` prints>)
#     find_package(ringloop REQUIRED COMPONENTS python)
#     target_link_libraries(demo PRIVATE ringloop::python)
#
# Targets: ringloop::ringloop, the shared library of the runtime with its headers; ringloop::python, the same for
# extension modules. A module finds the library again beside itself (in the folder that holds the package, or one or
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
# For the modules that are made from here on: CMake drops what a link option says when it installs them.
list(APPEND CMAKE_INSTALL_RPATH "$ORIGIN/ringloop/lib" "$ORIGIN/../ringloop/lib" "$ORIGIN/../../ringloop/lib")
foreach(ringloop_component IN LISTS ringloop_FIND_COMPONENTS)
    if(NOT ringloop_component MATCHES "^(python|runtime)$")
        set(ringloop_FOUND FALSE)
        set(ringloop_NOT_FOUND_MESSAGE "the Python package has the component python, not ${ringloop_component}: \
install ringloop's C++ library for it")
    endif()
endforeach()
