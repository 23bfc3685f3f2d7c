// sockets: sock_* of EventLoop as awaits on the loop's own ring.
//
//  - sock_recv is a ring operation into the receive pool: an idle one pins no memory.
//  - sock_sendall sends at once when little else is going on or the data is large, else it joins
//  the
//    turn's submission; a send that is done at once costs no turn.
//  - recvfrom, sendto and accept try at once, then after a poll, by the socket's own method.
//
// A cancelled call ends after its operation has; bytes or connections that came all the same wait
// for the next call on that socket (kept.hpp).
//
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include "pinned_buffer.hpp"
#include "ringloop/bridge/python/operation_source.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

// One call on one socket.
class socket_work : public bridge::operation_source {
  public:
    explicit socket_work(PyObject* socket) noexcept : socket_(bridge::ref::share(socket)) {}
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override;

  protected:
    virtual void begin() noexcept = 0;
    void fail(long result) noexcept;  // ends with that errno; *this is gone afterwards
    [[nodiscard]] bool raise_error() noexcept;
    [[nodiscard]] PyObject* socket() const noexcept { return socket_.get(); }
    // While a wait is in flight, close() of the Python socket is put off to its end, as the ring
    // does by itself: epoll would forget the descriptor, and nobody would ever hear.
    void hold_open() noexcept;
    void let_close() noexcept;

    int fd = -1;
    int error = 0;

  private:
    bridge::ref socket_;
    bool held_open_ = false;
};

// ---- what cancelled calls left, by socket (sockets_kept.cpp)

// Bytes that were received and not delivered; new reference or null (none, no exception).
[[nodiscard]] PyObject* take_kept(PyObject* socket, const char* kind) noexcept;
void keep(PyObject* socket, const char* kind, PyObject* value) noexcept;
void keep_bytes(PyObject* socket, const char* data, std::size_t size) noexcept;
int prepare_kept() noexcept;

}  // namespace ringloop::python
