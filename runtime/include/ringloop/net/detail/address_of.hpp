// address_of: where a socket is bound, or whom it is connected to, by the driver's verb for it.
// Thread: the driver's.
#pragma once

#include <sys/socket.h>

#include "ringloop/driver.hpp"
#include "ringloop/error.hpp"

namespace ringloop::net::detail {

template <class Address>
[[nodiscard]] Address address_of(driver& io, int socket,
                                 int (driver::*verb)(int, sockaddr*, socklen_t*),
                                 const char* what) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    ringloop::detail::checked((io.*verb)(socket, address, &size), what);
    return {address, size};
}

}  // namespace ringloop::net::detail
