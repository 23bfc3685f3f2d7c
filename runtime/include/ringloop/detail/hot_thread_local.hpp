// RINGLOOP_HOT_TLS: the storage model of thread-locals on hot paths. initial-exec: a plain load,
// also from a shared library.
//
// Not under sanitizers: the linker turns g++'s `add` of such an address into `lea`, which leaves
// the flags alone that UBSan's null check reads next; it then reports a null pointer that is none.
#pragma once

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RINGLOOP_HOT_TLS
#else
#define RINGLOOP_HOT_TLS [[gnu::tls_model("initial-exec")]]
#endif
