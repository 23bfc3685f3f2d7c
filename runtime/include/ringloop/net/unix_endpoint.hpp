// unix_endpoint: the address of a Unix socket: a path, an abstract name, or none. A value, for any
// thread.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>
#include <string_view>

namespace ringloop::net {

class unix_endpoint {
  public:
    // None: a socket that was never bound has it.
    unix_endpoint() noexcept;
    // A path, or an abstract name where the first character is a null. Throws std::invalid_argument
    // if it is longer than the kernel takes (107 bytes), or a path holds a null.
    explicit unix_endpoint(std::string_view path);
    // Throws std::invalid_argument if it is no Unix socket's.
    unix_endpoint(const sockaddr* address, socklen_t size);

    [[nodiscard]] std::string path() const;  // as it was given; empty: none
    [[nodiscard]] bool is_abstract() const noexcept;
    [[nodiscard]] const sockaddr* address() const noexcept {
        return reinterpret_cast<const sockaddr*>(&storage_);
    }
    [[nodiscard]] socklen_t size() const noexcept { return size_; }
    [[nodiscard]] std::string to_string() const;  // for people: "@name" for an abstract one
    [[nodiscard]] bool operator==(const unix_endpoint& other) const noexcept {
        return path() == other.path();
    }

  private:
    sockaddr_un storage_;
    socklen_t size_;
};

}  // namespace ringloop::net
