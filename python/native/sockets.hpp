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

#include "ringloop/bridge/python/operation_source.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

// Owns a Py_buffer.
class pinned_buffer {
  public:
    pinned_buffer() noexcept = default;
    pinned_buffer(const pinned_buffer&) = delete;
    pinned_buffer& operator=(const pinned_buffer&) = delete;
    ~pinned_buffer() {
        if (view_.obj != nullptr) PyBuffer_Release(&view_);
    }
    [[nodiscard]] bool take(PyObject* object, int flags) noexcept {
        if (PyObject_GetBuffer(object, &view_, flags) == 0) return true;
        // As the standard library: what cannot be written to is of the wrong type.
        if ((flags & PyBUF_WRITABLE) != 0 && PyErr_ExceptionMatches(PyExc_BufferError))
            PyErr_Format(PyExc_TypeError, "a writable buffer is needed, not %.200s",
                         Py_TYPE(object)->tp_name);
        return false;
    }
    [[nodiscard]] char* data() const noexcept { return static_cast<char*>(view_.buf); }
    [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }

  private:
    Py_buffer view_ = {};
};

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

    int fd = -1;
    int error = 0;

  private:
    bridge::ref socket_;
};

// ---- what cancelled calls left, by socket (sockets_kept.cpp)

// Bytes that were received and not delivered; new reference or null (none, no exception).
[[nodiscard]] PyObject* take_kept(PyObject* socket, const char* kind) noexcept;
void keep(PyObject* socket, const char* kind, PyObject* value) noexcept;
void keep_bytes(PyObject* socket, const char* data, std::size_t size) noexcept;
int prepare_kept() noexcept;

}  // namespace ringloop::python
