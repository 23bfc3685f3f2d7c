# ringloop_find_libpython(TARGET EXECUTABLE SOABI): the imported library TARGET for programs that host the Python of
# EXECUTABLE, with its headers. Where that cannot be, TARGET does not exist and ringloop_libpython_missing says why.
#
# The interpreter itself is asked: FindPython would look for another one, and change its users' variables.
function(ringloop_find_libpython target executable soabi)
    set(ringloop_libpython_missing "" PARENT_SCOPE)
    set(ask "import sysconfig as s; g = s.get_config_var; print(s.get_path('include'), g('LIBDIR'), g('LDLIBRARY'), \
g('INSTSONAME'), g('LIBPL'), g('SOABI'), g('LIBS'), g('SYSLIBS'), sep=';')")
    execute_process(COMMAND ${executable} -c "${ask}" OUTPUT_VARIABLE said OUTPUT_STRIP_TRAILING_WHITESPACE
                    RESULT_VARIABLE failed ERROR_QUIET)
    if(failed)
        set(ringloop_libpython_missing "${executable} does not run" PARENT_SCOPE)
        return()
    endif()
    list(GET said 0 include)
    list(GET said 1 folder)
    list(GET said 2 library)
    list(GET said 3 shared_name)
    list(GET said 4 static_folder)
    list(GET said 5 found_soabi)
    if(NOT found_soabi STREQUAL soabi)
        set(ringloop_libpython_missing "${executable} is ${found_soabi}, ringloop was built for ${soabi}" PARENT_SCOPE)
        return()
    endif()
    # Debian's python3 has libpython built in; the shared library is beside it all the same, by its full name.
    find_library(ringloop_libpython_file NAMES ${library} ${shared_name} PATHS ${folder} ${static_folder}
                 NO_DEFAULT_PATH NO_CACHE)
    if(NOT ringloop_libpython_file OR NOT EXISTS ${include}/Python.h)
        set(ringloop_libpython_missing
            "${executable} has no ${library} in ${folder}, or no headers in ${include}: install its development package"
            PARENT_SCOPE)
        return()
    endif()
    add_library(${target} UNKNOWN IMPORTED)
    set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${ringloop_libpython_file}
                          INTERFACE_INCLUDE_DIRECTORIES ${include})
    if(ringloop_libpython_file MATCHES "[.]a$")
        # Extension modules find Python's functions in the program, all of them.
        list(GET said 6 libraries)
        list(GET said 7 more_libraries)
        separate_arguments(libraries UNIX_COMMAND "${libraries} ${more_libraries}")
        set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${libraries}"
            INTERFACE_LINK_OPTIONS "LINKER:--export-dynamic;LINKER:--whole-archive;${ringloop_libpython_file};\
LINKER:--no-whole-archive")
    endif()
endfunction()
