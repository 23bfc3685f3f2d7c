// datagram_queue: datagrams that an endpoint has accepted and the kernel has not. Grows by
// doubling, keeps a little memory for the next turn, gives the rest back once it is empty.
//
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include <cstddef>

#include "datagram_address.hpp"

namespace ringloop::python {

// What asyncio counts for each queued datagram beside its bytes.
#if PY_VERSION_HEX >= 0x030D0000
inline constexpr std::size_t datagram_header_bytes = 8;
#else
inline constexpr std::size_t datagram_header_bytes = 0;
#endif

struct queued_datagram {
    PyObject* data = nullptr;     // bytes
    PyObject* address = nullptr;  // one that the socket module must read; null: `to`
    wire_address to;              // size 0 with no `address`: the connected peer
};

class datagram_queue {
  public:
    datagram_queue() noexcept = default;
    datagram_queue(const datagram_queue&) = delete;
    datagram_queue& operator=(const datagram_queue&) = delete;
    ~datagram_queue() {
        clear();
        PyMem_Free(items_);
    }

    // Shares both objects. False with MemoryError set.
    [[nodiscard]] bool push(PyObject* data, PyObject* address, const wire_address& to) noexcept;
    void pop(std::size_t count = 1) noexcept;
    void clear() noexcept { pop(count_ - head_); }
    [[nodiscard]] bool empty() const noexcept { return head_ == count_; }
    [[nodiscard]] std::size_t size() const noexcept { return count_ - head_; }
    [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] queued_datagram& operator[](std::size_t index) noexcept {
        return items_[head_ + index];
    }
    [[nodiscard]] const queued_datagram& operator[](std::size_t index) const noexcept {
        return items_[head_ + index];
    }

  private:
    static constexpr std::size_t kept = 32;
    bool make_room() noexcept;

    queued_datagram* items_ = nullptr;
    std::size_t head_ = 0;
    std::size_t count_ = 0;
    std::size_t capacity_ = 0;
    std::size_t bytes_ = 0;
};

}  // namespace ringloop::python
