# ringloop_options(target): the flags every target of this project is built with.
function(ringloop_options target)
    target_compile_options(${target} PRIVATE
        -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Wold-style-cast
        -fno-omit-frame-pointer -fstack-protector-strong)
    if(RINGLOOP_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    target_compile_definitions(${target} PRIVATE $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)
    if(RINGLOOP_SANITIZE)
        target_compile_options(${target} PRIVATE -fsanitize=${RINGLOOP_SANITIZE} -fno-sanitize-recover=all)
        target_link_options(${target} PRIVATE -fsanitize=${RINGLOOP_SANITIZE})
        # g++ warns falsely about its own headers when sanitizers are on.
        target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    endif()
    target_link_options(${target} PRIVATE -Wl,-z,relro,-z,now)
    get_target_property(kind ${target} TYPE)
    if(kind MATCHES "^(MODULE|SHARED)_LIBRARY$")
        # What static libraries bring (liburing) stays inside: a module exports its entry alone.
        target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL)
    endif()
endfunction()

# ringloop_precompile(target headers…): parses them once for a target of many small sources, in the
# developers' builds. Others compile without, so that a missing #include is noticed.
function(ringloop_precompile target)
    if(RINGLOOP_TESTS)
        target_precompile_headers(${target} PRIVATE ${ARGN})
        target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
    endif()
endfunction()
