// channel: a non-blocking socket to the server, with TLS around its bytes where that is asked for.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace load {

// The client's side of TLS, shared by all connections. Certificates are not checked.
class tls_client {
  public:
    tls_client();  // throws where this program was built without OpenSSL
    ~tls_client();
    tls_client(const tls_client&) = delete;
    tls_client& operator=(const tls_client&) = delete;
    struct state;

  private:
    friend class channel;
    std::unique_ptr<state> state_;
};

// Failures throw, with the name of what failed.
class channel {
  public:
    // kind: tcp, unix, udp, tls. The connection is made (not yet TLS's handshake); TCP's comes from
    // one of many addresses of the loopback network in turn, so that ports do not run out.
    channel(const std::string& kind, const std::string& address, tls_client* tls);
    ~channel();
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;

    static constexpr long would_block = -1;
    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    [[nodiscard]] bool handshake();  // true when TLS is ready, at once where there is none
    [[nodiscard]] long read(char* into, std::size_t size);  // 0: the end
    [[nodiscard]] long write(const char* from, std::size_t size);

  private:
    [[nodiscard]] long tls_result(int result, const char* what);

    int descriptor_ = -1;
    void* session_ = nullptr;  // OpenSSL's
};

}  // namespace load
