// sockets: sock_* of EventLoop as awaits on the loop's own ring.
//
//  - sock_recv is a ring operation into the receive pool: an idle one pins no memory.
//  - sock_sendall sends at once when little else is going on or the data is large, else it joins
//    the turn's submission; a send that is done at once costs no turn.
//  - recvfrom, sendto and accept try at once, then after a poll, by the socket's own method.
//
// A cancelled call ends after its operation has; bytes or connections that came all the same wait
// for the next call on that socket (sockets_kept.cpp).
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
    ~socket_work() override { landed(); }
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override;
    // In a forked child, before its copies of the loops are abandoned: it closes its sockets
    // itself.
    static void forget_all_after_fork() noexcept;

  protected:
    virtual void begin() noexcept = 0;
    void fail(long result) noexcept;  // ends with that errno; *this is gone afterwards
    [[nodiscard]] bool raise_error() noexcept;
    [[nodiscard]] PyObject* socket() const noexcept { return socket_.get(); }
    // Submits `op`, once it is prepared; *this may be gone afterwards. While it is in flight,
    // close() of the Python socket is put off to its end: epoll would forget the descriptor, and
    // nobody would ever hear. A ring's operation keeps the file by itself, so there it is only done
    // for works that use the descriptor again afterwards, when its number may be another file's.
    void fly(bool uses_fd_again = false) noexcept;
    void landed() noexcept;                // when it has completed, and is not to fly on
    [[nodiscard]] int find_fd() noexcept;  // fd, as the socket says now; -1: closed
    [[nodiscard]] virtual bool receives_bytes() const noexcept { return false; }
    // Of those that do, the one longest in flight on this socket and host; or null.
    [[nodiscard]] socket_work* oldest_receive() noexcept;

    int fd = -1;
    int error = 0;

  private:
    void hold_open() noexcept;
    void let_close() noexcept;

    static socket_work* first_;  // all that are in flight, the latest first
    socket_work* previous_ = nullptr;
    socket_work* next_ = nullptr;
    bridge::ref socket_;
    bool in_flight_ = false;
    bool held_open_ = false;
};

// ---- what cancelled calls left, by socket (sockets_kept.cpp)

// Bytes that were received and not delivered; new reference or null (none, no exception).
[[nodiscard]] PyObject* take_kept(PyObject* socket, const char* kind) noexcept;
void keep(PyObject* socket, const char* kind, PyObject* value) noexcept;
void keep_bytes(PyObject* socket, const char* data, std::size_t size) noexcept;
int prepare_kept() noexcept;

}  // namespace ringloop::python
