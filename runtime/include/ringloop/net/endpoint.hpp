// endpoint: a numeric IPv4 or IPv6 address with a port. A value, for any thread; no name is ever
// looked up.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace ringloop::net {

class endpoint {
  public:
    // 0.0.0.0, port 0
    endpoint() noexcept;
    // "127.0.0.1", "::1", "fe80::1%2" (scope by number). Throws std::invalid_argument.
    endpoint(std::string_view address, std::uint16_t port);
    // Throws std::invalid_argument if it is neither IPv4 nor IPv6.
    endpoint(const sockaddr* address, socklen_t size);

    [[nodiscard]] int family() const noexcept { return storage_.any.sa_family; }
    [[nodiscard]] std::uint16_t port() const noexcept;
    [[nodiscard]] const sockaddr* address() const noexcept { return &storage_.any; }
    [[nodiscard]] socklen_t size() const noexcept;
    [[nodiscard]] std::string to_string() const;  // "127.0.0.1:80", "[::1]:80"
    [[nodiscard]] bool operator==(const endpoint& other) const noexcept;

  private:
    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
    } storage_;
};

}  // namespace ringloop::net
