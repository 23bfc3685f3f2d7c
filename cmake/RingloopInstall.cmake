# cmake --install for C++ users: headers, library, CMake package, pkg-config file, licence. The wheel is another matter:
# it installs the component "python" alone.
#
# Components: "development" is everything that a build needs; "library" is the shared library, where that is built.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/ringloop)
get_target_property(ringloop_type ringloop TYPE)
if(ringloop_type STREQUAL "STATIC_LIBRARY")
    set(RINGLOOP_IS_STATIC ON)
else()
    set(RINGLOOP_IS_STATIC OFF)
endif()

function(ringloop_install_target target component)
    install(TARGETS ${target} EXPORT ringloop_${component}
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
            LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development
            INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    install(EXPORT ringloop_${component} NAMESPACE ringloop:: FILE ringloop-${component}-targets.cmake
            DESTINATION ${package_folder} COMPONENT development)
endfunction()

set(header_filter FILES_MATCHING PATTERN "*.hpp")
ringloop_install_target(ringloop runtime)
if(TARGET ringloop_tls)
    set_target_properties(ringloop_tls PROPERTIES EXPORT_NAME tls)
    ringloop_install_target(ringloop_tls tls)
endif()
if(TARGET ringloop_testing)
    set_target_properties(ringloop_testing PROPERTIES EXPORT_NAME testing)
    ringloop_install_target(ringloop_testing testing)
else()
    list(APPEND header_filter PATTERN "testing" EXCLUDE)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/runtime/include/ringloop DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        COMPONENT development ${header_filter})

# An API of 0.x changes with its minor version.
set(generated ${PROJECT_BINARY_DIR}/install)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/RingloopConfig.cmake.in
                              ${generated}/ringloop-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${generated}/ringloop-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${generated}/ringloop-config.cmake ${generated}/ringloop-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/RingloopLiburing.cmake
        DESTINATION ${package_folder} COMPONENT development)

# A static library's dependencies are every user's: they are named so that also a plain `pkg-config --libs` links.
if(RINGLOOP_IS_STATIC)
    set(RINGLOOP_PC_PRIVATE "")
    set(RINGLOOP_PC_LIBS " -pthread")
else()
    set(RINGLOOP_PC_PRIVATE ".private")
    set(RINGLOOP_PC_LIBS "")
endif()
list(JOIN RINGLOOP_PKG_CONFIG_MODULES ", " RINGLOOP_PC_REQUIRES)
file(RELATIVE_PATH RINGLOOP_PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
configure_file(${PROJECT_SOURCE_DIR}/cmake/ringloop.pc.in ${generated}/ringloop.pc @ONLY)
install(FILES ${generated}/ringloop.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
if(TARGET ringloop_tls)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/ringloop_tls.pc.in ${generated}/ringloop-tls.pc @ONLY)
    install(FILES ${generated}/ringloop-tls.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libringloop-dev
        RENAME copyright COMPONENT development)
