// tls_resumption: the sessions that a client's context keeps, to take up again.
//
// Thread: any; one mutex, held for a look along a short list.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>
#include <string>

#include "net/tls_openssl.hpp"

namespace ringloop::net::detail {

using ssl_session_pointer = std::unique_ptr<SSL_SESSION, freed_by<&SSL_SESSION_free>>;

class tls_resumption {
  public:
    // Keeps at most `sessions_max`; the oldest go first.
    explicit tls_resumption(std::size_t sessions_max) noexcept : sessions_max_(sessions_max) {}
    void keep(const std::string& host, ssl_session_pointer session);
    // The newest of that host, null if there is none. One of TLS 1.3 is given out once: who sees it
    // twice on the wire knows that it is the same client (RFC 8446, C.4).
    [[nodiscard]] ssl_session_pointer take(const std::string& host);

  private:
    struct kept {
        std::string host;
        ssl_session_pointer session;
    };
    const std::size_t sessions_max_;
    std::mutex mutex_;
    std::list<kept> newest_first_;
};

}  // namespace ringloop::net::detail
