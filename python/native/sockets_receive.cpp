// sock_recv, sock_recv_into. Contract in sockets.hpp. Thread: the loop's, GIL held.
//
// A call keeps its place until its bytes have been taken: what a cancelled one received all the
// same is kept, and the next, which begins only then, finds it.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "poll_events.hpp"
#include "sockets.hpp"
#include "sockets_works.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

class receiving : public socket_work {
  public:
    receiving(PyObject* socket, order which) noexcept : socket_work(socket, which) {
        takes_back = true;
    }
    void peer_reset() noexcept final { reset_ = true; }

  protected:
    virtual void received(const completion& done) noexcept = 0;

  private:
    void completed(const completion& done) noexcept final;
    bool reset_ = false;
    bool asked_ = false;
};

// A socket tells of a reset once. If it told a send that was in flight, this side saw an end: so
// that one is believed when the send, which has completed by the next turn, has not said otherwise.
void receiving::completed(const completion& done) noexcept {
    const bool ended = (done.result == 0 || asked_) && !cancelling;
    if (ended && !reset_ && !asked_ && first(fd, order::writing, whose()) != nullptr &&
        is_stream(socket())) {
        asked_ = true;
        op.prepare_poll(fd, poll_in);
        return fly();
    }
    landed();
    if (ended && reset_) return fail(-ECONNRESET);
    received(asked_ ? completion{} : done);
}

class receive_work final : public receiving {
  public:
    receive_work(PyObject* socket, std::size_t size) noexcept
        : receiving(socket, size != 0 ? order::reading : order::none), size_(size) {}
    PyObject* result() noexcept override { return raise_error() ? nullptr : value_.release(); }
    void undelivered(PyObject* value) noexcept override {
        PyObject* bytes = value != nullptr ? value : value_.get();
        if (bytes == nullptr || size_ == 0) return;
        if (PyBytes_GET_SIZE(bytes) == 0 && is_stream(socket()))
            return;  // the end comes again
        keep_bytes(socket(), bytes);
    }
    [[nodiscard]] const char* name() const noexcept override { return "sock_recv"; }

  private:
    void begin() noexcept override;
    void received(const completion& done) noexcept override;
    void receive_datagram() noexcept;
    void deliver(const char* data, std::size_t size) noexcept;
    const std::size_t size_;
    bool by_poll_ = false;
    ref value_;
};

void receive_work::deliver(const char* data, std::size_t size) noexcept {
    value_ = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    if (value_) return finish();
    PyErr_Clear();
    fail(-ENOMEM);
}

void receive_work::begin() noexcept {
    if (size_ == 0) return deliver(nullptr, 0);
    if (kept_bytes kept; take_kept_bytes(socket(), size_, kept)) {
        value_ = std::move(kept.bytes);
        return finish();
    }
    if (size_ > io().buffer_size()) {
        by_poll_ = !is_stream(socket());
        if (by_poll_) return receive_datagram();
    }
    op.prepare_receive(fd, false, size_);
    fly();
}

// One datagram that may be larger than a buffer of the pool: memory of its own, once one is there.
void receive_work::receive_datagram() noexcept {
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size_));
    if (bytes == nullptr) {
        PyErr_Clear();
        return fail(-ENOMEM);
    }
    const iovec piece{PyBytes_AS_STRING(bytes), size_};
    const ssize_t got = io().try_receive(fd, {&piece, 1});
    if (got < 0) {
        Py_DECREF(bytes);
        if (got != -EAGAIN && got != -EINTR) return fail(got);
        op.prepare_poll(fd, poll_in);
        return fly(true);
    }
    if (_PyBytes_Resize(&bytes, static_cast<Py_ssize_t>(got)) < 0) {
        PyErr_Clear();
        return fail(-ENOMEM);
    }
    value_ = ref::steal(bytes);
    finish();
}

void receive_work::received(const completion& done) noexcept {
    if (done.result < 0) return fail(done.result);
    if (by_poll_) {
        if (cancelling) return finish();
        return find_fd() < 0 ? fail(-EBADF) : receive_datagram();
    }
    if (done.result == 0) return deliver(nullptr, 0);
    auto got = static_cast<std::size_t>(done.result);
    const auto* data = reinterpret_cast<const char*>(io().buffer(done.buffer));
    // A full buffer, and the caller has room: the rest is most likely there.
    const bool more_wanted = got == io().buffer_size() && size_ > got && find_fd() >= 0;
    const std::size_t room = more_wanted ? size_ - got : 0;
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(got + room));
    if (bytes == nullptr) {
        PyErr_Clear();
        keep_bytes(socket(), data, got);
        io().release_buffer(done.buffer);
        return fail(-ENOMEM);
    }
    std::copy_n(data, got, PyBytes_AS_STRING(bytes));
    io().release_buffer(done.buffer);
    if (room != 0) {
        const iovec piece{PyBytes_AS_STRING(bytes) + got, room};
        const ssize_t more = io().try_receive(fd, {&piece, 1});
        if (more > 0) got += static_cast<std::size_t>(more);
        if (_PyBytes_Resize(&bytes, static_cast<Py_ssize_t>(got)) < 0) {
            PyErr_Clear();
            return fail(-ENOMEM);
        }
    }
    value_ = ref::steal(bytes);
    finish();
}

class receive_into_work final : public receiving {
  public:
    explicit receive_into_work(PyObject* socket) noexcept : receiving(socket, order::reading) {}
    pinned_buffer buffer;

    PyObject* result() noexcept override {
        return raise_error() ? nullptr : PyLong_FromSize_t(got_);
    }
    void undelivered(PyObject* /*value*/) noexcept override {
        if (!came_ || (got_ == 0 && is_stream(socket()))) return;
        keep_bytes(socket(), buffer.data(), got_);
    }
    [[nodiscard]] const char* name() const noexcept override { return "sock_recv_into"; }

  private:
    void begin() noexcept override;
    void received(const completion& done) noexcept override {
        if (done.result < 0) return fail(done.result);
        took(static_cast<std::size_t>(done.result));
    }
    void took(std::size_t size) noexcept {
        got_ = size;
        came_ = true;
        finish();
    }
    std::size_t got_ = 0;
    bool came_ = false;
};

void receive_into_work::begin() noexcept {
    if (buffer.size() == 0) return finish();
    if (kept_bytes kept; take_kept_bytes(socket(), buffer.size(), kept)) {
        const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(kept.bytes.get()));
        std::copy_n(PyBytes_AS_STRING(kept.bytes.get()), have, buffer.data());
        return took(have);
    }
    op.prepare_receive_into(fd, buffer.data(), buffer.size());
    fly();
}

}  // namespace

PyObject* await_receive(PyObject* socket, std::size_t size) noexcept {
    return bridge::await_source<receive_work>(socket, size);
}

PyObject* await_receive_into(PyObject* socket, PyObject* buffer) noexcept {
    std::unique_ptr<receive_into_work> work(new (std::nothrow) receive_into_work(socket));
    if (!work) return PyErr_NoMemory();
    if (!work->buffer.take(buffer, PyBUF_WRITABLE)) return nullptr;
    return bridge::new_awaitable(std::move(work));
}

}  // namespace ringloop::python
