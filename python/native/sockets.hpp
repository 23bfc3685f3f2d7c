// sockets: sock_* of EventLoop as awaits on the loop's own ring.
//
//  - sock_recv is a ring operation into the receive pool: an idle one pins no memory.
//  - sock_sendall sends at once, which costs no turn; what the kernel does not take then is sent by
//    the ring.
//  - recvfrom, sendto and accept try at once, then after a poll, by the socket's own method.
//
// Nothing happens before the first step. What reads from one socket is served in the order of
// these steps, and what writes to it as well (sockets_order.hpp).
//
// A cancelled call ends after its operation has; bytes or connections that came all the same wait
// for the next call on that socket, or for a transport made over it (sockets_kept.cpp).
//
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include "owners.hpp"
#include "pinned_buffer.hpp"
#include "ringloop/bridge/python/operation_source.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "sockets_order.hpp"

namespace ringloop::python {

// One call on one socket.
class socket_work : public bridge::operation_source, public socket_place {
  public:
    socket_work(PyObject* socket, order which) noexcept
        : socket_(bridge::ref::share(socket)), order_(which) {}
    ~socket_work() override {
        landed();
        leave();
    }
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept final;
    void request_cancel() noexcept final;
    void collect() noexcept final;
    int traverse(visitproc visit, void* arg) noexcept override {
        Py_VISIT(socket_.get());
        return 0;
    }
    // In a forked child, before its copies of the loops are abandoned: it closes its sockets
    // itself.
    static void forget_all_after_fork() noexcept;
    static void list_owners(owner_list& found) noexcept;  // of the calls in flight

  protected:
    virtual void begin() noexcept = 0;  // fd is the socket's, and it is this call's turn
    void finish() noexcept;             // *this is gone afterwards; the next begins
    void fail(long result) noexcept;    // ends with that errno; *this is gone afterwards
    [[nodiscard]] bool raise_error() noexcept;
    [[nodiscard]] PyObject* socket() const noexcept { return socket_.get(); }
    [[nodiscard]] owners whose() noexcept { return {socket_.get(), &host()}; }
    // Submits `op`, once it is prepared; *this may be gone afterwards. While it is in flight,
    // close() of the Python socket is put off to its end: epoll would forget the descriptor, and
    // nobody would ever hear. A ring's operation keeps the file by itself, so there it is only done
    // for works that use the descriptor again afterwards, when its number may be another file's.
    void fly(bool uses_fd_again = false) noexcept;
    void landed() noexcept;                // when it has completed, and is not to fly on
    [[nodiscard]] int find_fd() noexcept;  // fd, as the socket says now; -1: closed

    int fd = -1;
    int error = 0;

  private:
    void go() noexcept final;
    void hold_open() noexcept;
    void let_close() noexcept;

    static socket_work* first_;  // all that are in flight, the latest first
    socket_work* previous_ = nullptr;
    socket_work* next_ = nullptr;
    bridge::ref socket_;
    const order order_;
    bool in_flight_ = false;
    bool held_open_ = false;
};

// ---- what cancelled calls left, by socket (sockets_kept.cpp)

[[nodiscard]] bool nothing_kept() noexcept;  // of no socket
// Of accepts. New reference or null (none, no exception).
[[nodiscard]] PyObject* take_kept(PyObject* socket, const char* kind) noexcept;
void keep(PyObject* socket, const char* kind, PyObject* value) noexcept;

// What was received and not delivered, before all that is kept already: whoever gives it back
// stood first.
void keep_bytes(PyObject* socket, PyObject* bytes, PyObject* address = Py_None) noexcept;
void keep_bytes(PyObject* socket, const char* data, std::size_t size,
                PyObject* address = Py_None) noexcept;
struct kept_bytes {
    bridge::ref bytes;
    bridge::ref address;  // None: unknown, or a stream's
};
// At most size_max of the oldest. The rest stays with a stream, and is cut off a datagram. False:
// there is nothing, and no exception.
[[nodiscard]] bool take_kept_bytes(PyObject* socket, std::size_t size_max,
                                   kept_bytes& out) noexcept;
// For a transport over that socket: a list of bytes, or null (none, no exception).
[[nodiscard]] PyObject* take_all_kept_bytes(PyObject* socket) noexcept;
[[nodiscard]] bool is_stream(PyObject* socket) noexcept;  // as the Python socket knows it
int prepare_kept() noexcept;

}  // namespace ringloop::python
