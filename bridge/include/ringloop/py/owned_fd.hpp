// py::owned_fd: a descriptor that Python hands over to a coroutine, and gets back from one.
//
//     rl::task<rl::py::owned_fd> greet(rl::py::owned_fd given) {
//         rl::net::tcp_stream stream(*rl::scheduler::current(), given.release());
//         co_await stream.write_all("hello");
//         co_return rl::py::owned_fd(stream.release());
//     }
//
//     sock, received = await ringloop.detach(transport)
//     owned = await demo.greet(sock)                  # sock has given it up: sock.fileno() is -1
//     transport, protocol = await ringloop.attach(owned, Protocol, received)
//
// It has one owner at any time. As a parameter it takes a socket or a ringloop.OwnedFd, which have
// none afterwards; a call that raises leaves it where it was (TypeError; FdConflictError where a
// loop of this process still has it). As a result it becomes a ringloop.OwnedFd. In between whoever
// holds this object closes it: a call that is never awaited, a cancelled or failed coroutine.
//
// Thread: any; from_python() and to_python() with the GIL.
#pragma once

#include <Python.h>
#include <unistd.h>

#include <utility>

#include "ringloop/py/error.hpp"
#include "ringloop/py/ref.hpp"

namespace ringloop::py {

class owned_fd {
  public:
    owned_fd() noexcept = default;
    explicit owned_fd(int fd) noexcept : fd_(fd) {}  // takes it over
    owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    owned_fd& operator=(owned_fd&& other) noexcept {
        owned_fd taken(std::move(other));
        std::swap(fd_, taken.fd_);
        return *this;
    }
    owned_fd(const owned_fd&) = delete;
    owned_fd& operator=(const owned_fd&) = delete;
    ~owned_fd() {
        // tidy-allow: kernel-door because it may end on any thread, where no driver is
        if (fd_ >= 0) static_cast<void>(::close(fd_));
    }

    [[nodiscard]] int get() const noexcept { return fd_; }  // -1: none
    [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }
    explicit operator bool() const noexcept { return fd_ >= 0; }

    // Whether Python's object looks like an owner of a descriptor that it can give up.
    [[nodiscard]] static bool can_be(PyObject* object) noexcept {
        return PyObject_HasAttrString(object, "fileno") != 0 &&
               PyObject_HasAttrString(object, "detach") != 0;
    }
    // Takes it from a socket or an OwnedFd. Throws py::error; then it has stayed there.
    [[nodiscard]] static owned_fd from_python(PyObject* object) {
        const ref number = call("ringloop._owners", "give_up", "Os", object, "native code");
        return owned_fd(static_cast<int>(PyLong_AsLong(number.get())));
    }
    // A ringloop.OwnedFd. Throws py::error; then the descriptor is closed.
    [[nodiscard]] ref to_python() && {
        ref made = call("ringloop", "OwnedFd", "i", fd_);
        fd_ = -1;
        return made;
    }

    // Closes the OwnedFd of an await whose result came too late for its task. GIL.
    static void undelivered(PyObject* value) noexcept {
        bridge::ref raised = bridge::take_exception();
        const ref closed = ref::steal(PyObject_CallMethod(value, "close", nullptr));
        if (!closed) PyErr_WriteUnraisable(value);
        if (raised) bridge::restore_exception(std::move(raised));
    }

  private:
    template <class... Arguments>
    static ref call(const char* module, const char* name, const char* format, Arguments... given) {
        const ref in = ref::steal(PyImport_ImportModule(module));
        ref answer = in ? ref::steal(PyObject_CallMethod(in.get(), name, format, given...)) : ref();
        if (!answer) throw error::take();
        return answer;
    }
    int fd_ = -1;
};

}  // namespace ringloop::py
