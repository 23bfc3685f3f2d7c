// outgoing: what one transport has accepted and the kernel has not. Blocks come from a free list
// and live only while something waits; an idle connection has none.
//
// Two lists of pieces: one is filled by write(), the other may be in flight in one gathered send;
// neither the array nor the bytes in flight move. Pieces keep a reference to the bytes object they
// point into; once a list has more than a few pieces, small ones are copied together, so that a
// hundred short lines become one piece.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

#include "ringloop/operation.hpp"

namespace ringloop::python {

struct transport_state;

class piece_list {
  public:
    piece_list() noexcept = default;
    piece_list(const piece_list&) = delete;
    piece_list& operator=(const piece_list&) = delete;
    ~piece_list() { clear(); }

    // Steals `owner`, which keeps `data` alive. False with MemoryError set (owner is dropped).
    [[nodiscard]] bool add(PyObject* owner, const char* data, std::size_t size) noexcept;
    // Copies `data` behind earlier small pieces, if the list is long enough for that to pay. False
    // without an exception: use add().
    [[nodiscard]] bool merge(const char* data, std::size_t size) noexcept;
    void consume(std::size_t bytes) noexcept;
    void clear() noexcept;
    [[nodiscard]] bool empty() const noexcept { return head_ == count_; }
    [[nodiscard]] iovec* front() noexcept { return pieces_ + head_; }
    [[nodiscard]] const iovec* front() const noexcept { return pieces_ + head_; }
    [[nodiscard]] std::size_t size() const noexcept { return count_ - head_; }

  private:
    static constexpr std::uint32_t inline_max = 4;
    bool grow() noexcept;

    iovec* pieces_ = inline_pieces_;
    PyObject** owners_ = inline_owners_;
    std::uint32_t head_ = 0;
    std::uint32_t count_ = 0;
    std::uint32_t capacity_ = inline_max;
    std::uint32_t merge_room_ = 0;  // bytes free behind the last piece, if it is one of ours
    iovec inline_pieces_[inline_max];
    PyObject* inline_owners_[inline_max];
};

struct outgoing {
    explicit outgoing(operation::handler on_sent) noexcept : send(on_sent, true) {}
    operation send;
    transport_state* owner = nullptr;
    msghdr message = {};
    piece_list lists[2];
    std::size_t bytes = 0;     // in both lists
    std::uint8_t filling = 0;  // the list that write() appends to; the other may be in flight
    bool run_ends = false;     // collected behind a run: no callback of Python's runs now
    outgoing* next_free = nullptr;

    [[nodiscard]] piece_list& pending() noexcept { return lists[filling]; }
    [[nodiscard]] piece_list& flight() noexcept { return lists[filling ^ 1]; }
};

// Null with MemoryError set.
[[nodiscard]] outgoing* take_outgoing(transport_state& owner, operation::handler on_sent) noexcept;
void give_outgoing(outgoing* block) noexcept;  // must not be in flight; drops what it holds
extern long outgoing_live;

}  // namespace ringloop::python
