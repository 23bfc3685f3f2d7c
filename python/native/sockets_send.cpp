// sock_sendall, and the calls that go through the socket's own method once it is ready: recvfrom,
// sendto, accept. Contract in sockets.hpp. Thread: the loop's, GIL held.
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

// With this much in flight the turn goes to the kernel anyway: a small send rides along.
constexpr std::size_t busy_operations = 8;
constexpr std::size_t large_bytes = 32 * 1024;

class send_work final : public socket_work {
  public:
    explicit send_work(PyObject* socket) noexcept : socket_work(socket) {}
    pinned_buffer buffer;
    std::size_t sent = 0;
    ssize_t refused = 0;  // a negated errno of the attempt in place

    PyObject* result() noexcept override { return raise_error() ? nullptr : Py_NewRef(Py_None); }
    [[nodiscard]] const char* name() const noexcept override { return "sock_sendall"; }

  private:
    void begin() noexcept override {
        if (refused < 0) return fail(refused);
        advance();
    }
    void advance() noexcept {
        piece_ = {buffer.data() + sent, buffer.size() - sent};
        message_ = {};
        message_.msg_iov = &piece_;
        message_.msg_iovlen = 1;
        op.prepare_send(fd, &message_);
        fly(true);
    }
    void completed(const completion& done) noexcept override {
        const bool failed = done.result < 0 && done.result != -EAGAIN && done.result != -EINTR;
        sent += static_cast<std::size_t>(std::max(done.result, 0));
        if (!failed && sent < buffer.size() && !cancelling) return advance();
        landed();
        failed ? fail(done.result) : owner().finish();
    }
    iovec piece_ = {};
    msghdr message_ = {};
};

// Sends what fits at once. Returns how much, or a negated errno.
ssize_t send_now(driver& io, PyObject* socket, const pinned_buffer& buffer) noexcept {
    const ref number = ref::steal(PyObject_CallMethod(socket, "fileno", nullptr));
    const long fd = number ? PyLong_AsLong(number.get()) : -1;
    if (PyErr_Occurred() != nullptr) PyErr_Clear();
    if (fd < 0) return -EBADF;
    const iovec piece{buffer.data(), buffer.size()};
    return io.try_send(static_cast<int>(fd), {&piece, 1});
}

// ---- calls of the socket's own methods

class call_work final : public socket_work {
  public:
    call_work(PyObject* socket, ready_for what, const char* method) noexcept
        : socket_work(socket), method_(method), what_(what) {
        takes_back = true;
    }
    ref arguments;  // tuple

    PyObject* result() noexcept override {
        if (raise_error()) return nullptr;
        if (!value_ && failure_) bridge::restore_exception(std::move(failure_));
        return value_.release();
    }
    void undelivered(PyObject* value) noexcept override;
    [[nodiscard]] const char* name() const noexcept override {
        return method_ != nullptr ? method_ : "sock_connect";
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
    const char* const method_;  // null: only wait
    const ready_for what_;
    ref value_;
    ref failure_;
};

bool call_work::call() noexcept {
    const ref function = ref::steal(PyObject_GetAttrString(socket(), method_));
    value_ = function ? ref::steal(PyObject_CallObject(function.get(), arguments.get())) : ref();
    if (value_ && std::strcmp(method_, "accept") == 0) {
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

void call_work::begin() noexcept {
    if (method_ == nullptr) return wait();
    if (what_ == ready_for::reading) value_ = ref::steal(take_kept(socket(), method_));
    if (value_ || call()) return owner().finish();
    wait();
}

void call_work::completed(const completion& done) noexcept {
    landed();
    if (cancelling) return owner().finish();
    if (done.result < 0) return fail(done.result);
    if (method_ == nullptr) {
        value_ = ref::share(Py_None);
        return owner().finish();
    }
    if (call()) return owner().finish();
    wait();
}

void call_work::undelivered(PyObject* value) noexcept {
    PyObject* lost = value != nullptr ? value : value_.get();
    if (lost != nullptr && method_ != nullptr && what_ == ready_for::reading &&
        std::strcmp(method_, "recvfrom_into") != 0)
        keep(socket(), method_, lost);
}

}  // namespace

PyObject* await_send_all(driver& io, PyObject* socket, PyObject* data) noexcept {
    std::unique_ptr<send_work> work(new (std::nothrow) send_work(socket));
    if (!work) return PyErr_NoMemory();
    if (!work->buffer.take(data, PyBUF_SIMPLE)) return nullptr;
    if (work->buffer.size() == 0) return bridge::finished_none();
    if (work->buffer.size() >= large_bytes || io.in_flight() < busy_operations) {
        const ssize_t sent = send_now(io, socket, work->buffer);
        if (sent == static_cast<ssize_t>(work->buffer.size())) return bridge::finished_none();
        if (sent > 0) work->sent = static_cast<std::size_t>(sent);
        if (sent < 0 && sent != -EAGAIN && sent != -EINTR) work->refused = sent;
    }
    return bridge::new_awaitable(std::move(work));
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
