# cpack: the Debian package libringloop-dev and, where the shared library is built, libringloop0.1.
#
#     cmake -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX=/usr && cmake --build build
#     (cd build && cpack)
#
# The prefix is given so that the library's folder is Debian's (lib/<architecture>).
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "The ringloop authors <ringloop@users.noreply.invalid>")
set(CPACK_PACKAGE_VENDOR "The ringloop authors")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL development)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
list(JOIN RINGLOOP_DEBIAN_PACKAGES ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libringloop-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
if(TARGET ringloop_tls)
    set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libssl-dev (>= 3.0)")    # for TLS alone
endif()
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "${PROJECT_DESCRIPTION}\nHeaders, library and CMake package of its C++20 runtime.")
if(NOT RINGLOOP_IS_STATIC)
    set(library_package libringloop${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    list(APPEND CPACK_COMPONENTS_ALL library)
    set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME ${library_package})
    set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
    set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
    set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "${PROJECT_DESCRIPTION}\nThe shared library of its C++20 runtime.")
    set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${PROJECT_VERSION})")
endif()
include(CPack)
