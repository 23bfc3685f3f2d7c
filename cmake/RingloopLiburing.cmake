# ringloop::liburing, the ring protocol: for the build, and beside the installed package for programs that link
# the static library. Without liburing on the machine the target is not made; who includes this says what is missing.
find_path(LIBURING_INCLUDE liburing.h)
find_library(LIBURING_LIBRARY NAMES liburing.a uring)
mark_as_advanced(LIBURING_INCLUDE LIBURING_LIBRARY)
if(LIBURING_INCLUDE AND LIBURING_LIBRARY AND NOT TARGET ringloop::liburing)
    add_library(ringloop::liburing UNKNOWN IMPORTED)
    set_target_properties(ringloop::liburing PROPERTIES
        IMPORTED_LOCATION ${LIBURING_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${LIBURING_INCLUDE})
endif()
