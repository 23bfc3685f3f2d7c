// Socket addresses between the kernel's form and the socket module's, for datagrams: each one has
// its own.
//
// Thread: the loop's, GIL held. Nothing here resolves names.
#pragma once

#include <Python.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ringloop::python {

struct wire_address {
    union {
        sockaddr any;
        sockaddr_in v4;
        sockaddr_in6 v6;
        sockaddr_un local;
        std::byte bytes[sizeof(sockaddr_un) + 2];
    };
    socklen_t size;  // 0: none

    wire_address() noexcept : v6{}, size(0) {}
};

// True if `address` is one of `family` as it stands: numeric, complete, in range. False, without an
// exception, for all else: names, wrong types, wrong numbers. Those are the socket module's to
// resolve or to refuse.
[[nodiscard]] bool parse_address(int family, PyObject* address, wire_address& parsed) noexcept;

// What the socket module's recvfrom() would return for it: a new reference, or null with an
// exception set.
[[nodiscard]] PyObject* address_object(const wire_address& address) noexcept;

// The addresses that an endpoint got datagrams from lately, by their place in a small table: the
// same tuple is given out again, and found again when an answer is sent to it.
class address_cache {
  public:
    static constexpr std::size_t places_max = 64;
    // `places`: at most places_max; an endpoint with a peer needs one. Throws std::bad_alloc.
    explicit address_cache(std::size_t places) : entries_(new entry[places]), places_(places) {}
    address_cache(const address_cache&) = delete;
    address_cache& operator=(const address_cache&) = delete;
    ~address_cache() { clear(); }

    [[nodiscard]] PyObject* object_of(const wire_address& address) noexcept;
    // False: this very object was not given out, or is forgotten.
    [[nodiscard]] bool find(PyObject* object, wire_address& found) const noexcept;
    void clear() noexcept;

  private:
    struct entry {
        sockaddr_in6 address{};  // or a sockaddr_in
        socklen_t size = 0;
        PyObject* object = nullptr;
    };
    std::unique_ptr<entry[]> entries_;
    std::size_t places_;
    std::uint8_t by_object_[places_max] = {};
};

}  // namespace ringloop::python
