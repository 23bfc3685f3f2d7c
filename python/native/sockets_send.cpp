// sock_sendall, the turn to send, and the calls that go through the socket's own method once it is
// ready: recvfrom, sendto, accept. Contract in sockets.hpp. Thread: the loop's, GIL held.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "poll_events.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "sockets.hpp"
#include "sockets_works.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

class send_work final : public socket_work {
  public:
    explicit send_work(PyObject* socket) noexcept : socket_work(socket, order::writing) {}
    pinned_buffer buffer;

    PyObject* result() noexcept override { return raise_error() ? nullptr : Py_NewRef(Py_None); }
    [[nodiscard]] const char* name() const noexcept override { return "sock_sendall"; }

  private:
    void begin() noexcept override;
    void advance() noexcept {
        piece_ = {buffer.data() + sent_, buffer.size() - sent_};
        message_ = {};
        message_.msg_iov = &piece_;
        message_.msg_iovlen = 1;
        op.prepare_send(fd, &message_);
        fly(true);
    }
    void completed(const completion& done) noexcept override {
        const bool failed = done.result < 0 && done.result != -EAGAIN && done.result != -EINTR;
        sent_ += static_cast<std::size_t>(std::max(done.result, 0));
        if (!failed && sent_ < buffer.size() && !cancelling) return advance();
        landed();
        socket_place* reader =
            done.result == -ECONNRESET ? first(fd, order::reading, whose()) : nullptr;
        if (reader != nullptr) reader->peer_reset();
        failed ? fail(done.result) : finish();
    }
    std::size_t sent_ = 0;
    iovec piece_ = {};
    msghdr message_ = {};
};

void send_work::begin() noexcept {
    const iovec piece{buffer.data(), buffer.size()};
    const ssize_t sent = io().try_send(fd, {&piece, 1});
    if (sent == static_cast<ssize_t>(buffer.size())) return finish();
    if (sent < 0 && sent != -EAGAIN && sent != -EINTR) return fail(sent);
    sent_ = static_cast<std::size_t>(std::max(sent, ssize_t{0}));
    advance();
}

// ---- the turn to write, for whoever writes by other means

class held_turn final : public socket_place {
    void go() noexcept override {}
};

constexpr const char* turn_name = "ringloop.sock_send_turn";

void end_turn(PyObject* capsule) {
    delete static_cast<held_turn*>(PyCapsule_GetPointer(capsule, turn_name));
}

class turn_work final : public socket_work {
  public:
    explicit turn_work(PyObject* socket) noexcept : socket_work(socket, order::writing) {}
    PyObject* result() noexcept override { return raise_error() ? nullptr : turn_.release(); }
    [[nodiscard]] const char* name() const noexcept override { return "turn to send"; }

  private:
    void begin() noexcept override {
        auto* turn = new (std::nothrow) held_turn;
        turn_ = turn != nullptr ? ref::steal(PyCapsule_New(turn, turn_name, end_turn)) : ref();
        if (!turn_) {
            delete turn;
            PyErr_Clear();
            return fail(-ENOMEM);
        }
        turn->replace(*this);
        finish();
    }
    void completed(const completion& /*done*/) noexcept override {}
    ref turn_;
};

// ---- calls of the socket's own methods

class call_work final : public socket_work {
  public:
    // Each connection goes to whoever asks; a poll takes nothing.
    static order order_of(ready_for what, const char* method) noexcept {
        if (method == nullptr || std::strcmp(method, "accept") == 0) return order::none;
        return what == ready_for::reading ? order::reading : order::writing;
    }
    call_work(PyObject* socket, ready_for what, const char* method) noexcept
        : socket_work(socket, order_of(what, method)), method_(method), what_(what) {
        takes_back = method != nullptr && what == ready_for::reading;
    }
    ref arguments;  // tuple

    PyObject* result() noexcept override {
        if (raise_error()) return nullptr;
        if (!value_ && failure_) bridge::restore_exception(std::move(failure_));
        return value_.release();
    }
    void undelivered(PyObject* value) noexcept override;
    [[nodiscard]] const char* name() const noexcept override {
        return method_ != nullptr ? method_ : "wait for a socket";
    }

  private:
    void begin() noexcept override;
    void completed(const completion& done) noexcept override;
    void wait() noexcept {
        op.prepare_poll(fd, what_ == ready_for::reading ? poll_in : poll_out);
        fly();
    }
    // True when it is over: value_ or failure_ is set.
    [[nodiscard]] bool call() noexcept;
    [[nodiscard]] bool take_kept_value() noexcept;
    [[nodiscard]] bool is(const char* method) const noexcept {
        return method_ != nullptr && std::strcmp(method_, method) == 0;
    }
    const char* const method_;  // null: only wait
    const ready_for what_;
    ref value_;
    ref failure_;
};

bool call_work::call() noexcept {
    const ref function = ref::steal(PyObject_GetAttrString(socket(), method_));
    value_ = function ? ref::steal(PyObject_CallObject(function.get(), arguments.get())) : ref();
    if (value_ && is("accept")) {
        PyObject* connection = PyTuple_GetItem(value_.get(), 0);
        const ref done = ref::steal(PyObject_CallMethod(connection, "setblocking", "i", 0));
        if (!done) value_ = ref();
    }
    if (value_) return true;
    if (PyErr_ExceptionMatches(PyExc_BlockingIOError) != 0 ||
        PyErr_ExceptionMatches(PyExc_InterruptedError) != 0) {
        PyErr_Clear();
        return false;
    }
    failure_ = bridge::take_exception();
    return true;
}

// What a cancelled call left. True: value_ or failure_ is set.
bool call_work::take_kept_value() noexcept {
    if (nothing_kept()) return false;
    if (is("accept")) value_ = ref::steal(take_kept(socket(), method_));
    if (order_of(what_, method_) != order::reading) return static_cast<bool>(value_);
    const bool into = is("recvfrom_into");
    PyObject* const first_argument = PyTuple_GET_ITEM(arguments.get(), 0);
    pinned_buffer buffer;
    Py_ssize_t size = -1;
    if (!into) {
        size = PyNumber_AsSsize_t(first_argument, PyExc_OverflowError);
    } else if (buffer.take(first_argument, PyBUF_WRITABLE)) {
        size = static_cast<Py_ssize_t>(buffer.size());
        if (PyTuple_GET_SIZE(arguments.get()) > 1) {
            const Py_ssize_t wanted =
                PyNumber_AsSsize_t(PyTuple_GET_ITEM(arguments.get(), 1), PyExc_OverflowError);
            if (wanted > 0) size = std::min(size, wanted);
        }
    }
    if (PyErr_Occurred() != nullptr) PyErr_Clear();  // the socket's own method says it
    kept_bytes kept;
    if (size <= 0 || !take_kept_bytes(socket(), static_cast<std::size_t>(size), kept)) return false;
    if (into) {
        const Py_ssize_t have = PyBytes_GET_SIZE(kept.bytes.get());
        std::memcpy(buffer.data(), PyBytes_AS_STRING(kept.bytes.get()),
                    static_cast<std::size_t>(have));
        kept.bytes = ref::steal(PyLong_FromSsize_t(have));
    }
    if (kept.bytes) value_ = ref::steal(PyTuple_Pack(2, kept.bytes.get(), kept.address.get()));
    if (!value_) failure_ = bridge::take_exception();
    return true;
}

void call_work::begin() noexcept {
    if (method_ == nullptr) return wait();
    if (take_kept_value() || call()) return finish();
    wait();
}

void call_work::completed(const completion& done) noexcept {
    landed();
    if (cancelling) return finish();
    if (done.result < 0) return fail(done.result);
    if (method_ == nullptr) {
        value_ = ref::share(Py_None);
        return finish();
    }
    if (call()) return finish();
    wait();
}

void call_work::undelivered(PyObject* value) noexcept {
    PyObject* lost = value != nullptr ? value : value_.get();
    if (lost == nullptr) return;
    if (is("accept")) return keep(socket(), method_, lost);
    if (order_of(what_, method_) != order::reading) return;
    PyObject* const what = PyTuple_GET_ITEM(lost, 0);
    PyObject* const address = PyTuple_GET_ITEM(lost, 1);
    if (PyBytes_Check(what)) {
        if (PyBytes_GET_SIZE(what) == 0 && is_stream(socket())) return;  // the end comes again
        return keep_bytes(socket(), what, address);
    }
    const ref saved = bridge::take_exception();
    const std::size_t size = PyLong_AsSize_t(what);
    pinned_buffer buffer;
    if (buffer.take(PyTuple_GET_ITEM(arguments.get(), 0), PyBUF_WRITABLE)) {
        if (size != 0 || !is_stream(socket())) keep_bytes(socket(), buffer.data(), size, address);
    } else {
        PyErr_WriteUnraisable(socket());
    }
    if (saved) bridge::restore_exception(ref::share(saved.get()));
}

}  // namespace

PyObject* await_send_all(PyObject* socket, PyObject* data) noexcept {
    std::unique_ptr<send_work> work(new (std::nothrow) send_work(socket));
    if (!work) return PyErr_NoMemory();
    if (!work->buffer.take(data, PyBUF_SIMPLE)) return nullptr;
    return bridge::new_awaitable(std::move(work));
}

PyObject* await_send_turn(PyObject* socket) noexcept {
    return bridge::await_source<turn_work>(socket);
}

PyObject* await_call(PyObject* socket, ready_for what, const char* method, PyObject* const* args,
                     Py_ssize_t count) noexcept {
    std::unique_ptr<call_work> work(new (std::nothrow) call_work(socket, what, method));
    if (!work) return PyErr_NoMemory();
    work->arguments = ref::steal(PyTuple_New(count));
    if (!work->arguments) return nullptr;
    for (Py_ssize_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(work->arguments.get(), i, Py_NewRef(args[i]));
    return bridge::new_awaitable(std::move(work));
}

}  // namespace ringloop::python
