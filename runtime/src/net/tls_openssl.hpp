// What the parts of TLS share of OpenSSL: owners of its objects, its errors as exceptions, and the
// memory that it reads from and writes to in place of a socket.
//
// OpenSSL never touches a descriptor here and never waits. Its errors lie in a queue per thread:
// cleared before each call of its own that may fail, read right after it.
#pragma once

#include <openssl/bio.h>
#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "net/tls_output.hpp"
#include "ringloop/buffer.hpp"
#include "ringloop/net/tls.hpp"

namespace ringloop::net::detail {

template <auto Free>
struct freed_by {
    template <class T>
    void operator()(T* object) const noexcept {
        Free(object);
    }
};
using ssl_pointer = std::unique_ptr<SSL, freed_by<&SSL_free>>;
using ssl_context_pointer = std::unique_ptr<SSL_CTX, freed_by<&SSL_CTX_free>>;

class tls_resumption;

// What a tls_context is a handle of.
struct tls_settings {
    ssl_context_pointer context;
    std::string alpn;  // as on the wire: each name after a byte with its length
    bool is_client = true;
    bool verifies = true;
    std::shared_ptr<tls_resumption> sessions;  // a client's; null: it keeps none
};

struct tls_error_details {
    std::string verification;
    std::string host;
    bool cut = false;
};

// The thread's first error as an exception, "`doing`: reason"; the queue is empty afterwards.
[[nodiscard]] tls_error take_error(const std::string& doing, tls_error_details details = {});
// Likewise thrown, as ringloop::error if it is one of the system's.
[[noreturn]] void throw_taken(const std::string& doing);
// The stream ended without a close_notify.
[[nodiscard]] tls_error cut_error(const std::string& doing, const std::string& host);

// What OpenSSL reads from, and what it writes to.
struct tls_wire {
    explicit tls_wire(stream_state& socket) noexcept : output(socket) {}
    buffer_lease input;  // arrived and not yet read; empty: OpenSSL "wants to read"
    tls_output output;
};
// A BIO over `wire`, which outlives it. The caller's reference is for SSL_set_bio().
[[nodiscard]] BIO* make_bio(tls_wire& wire);

}  // namespace ringloop::net::detail
