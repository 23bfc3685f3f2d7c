// sock_recv, sock_recv_into. Contract in sockets.hpp. Thread: the loop's, GIL held.
//
// What a cancelled call received all the same is kept for the next one. That may be in flight
// already: then it is taken back from the kernel and begins anew, so that it finds those bytes.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "sockets.hpp"
#include "sockets_works.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

class receiving : public socket_work {
  public:
    explicit receiving(PyObject* socket) noexcept : socket_work(socket) { takes_back = true; }

  protected:
    virtual void received(const completion& done) noexcept = 0;
    virtual void put_back(const completion& done) noexcept = 0;  // keeps what came
    void restart_next() noexcept;                                // bytes of this one were kept

  private:
    [[nodiscard]] bool receives_bytes() const noexcept final { return true; }
    void completed(const completion& done) noexcept final {
        landed();
        const bool again = std::exchange(again_, false) && !cancelling;
        if (!again || (done.result < 0 && done.result != -ECANCELED)) return received(done);
        put_back(done);
        if (find_fd() < 0) return fail(-EBADF);
        begin();
    }
    bool again_ = false;
};

void receiving::restart_next() noexcept {
    auto* oldest = static_cast<receiving*>(oldest_receive());
    if (oldest == nullptr) return;
    oldest->again_ = true;
    bridge::loop_host& on = oldest->host();
    on.native().io().cancel(oldest->op);
    on.submitted();
}

class receive_work final : public receiving {
  public:
    receive_work(PyObject* socket, std::size_t size) noexcept : receiving(socket), size_(size) {}
    PyObject* result() noexcept override { return raise_error() ? nullptr : value_.release(); }
    void undelivered(PyObject* value) noexcept override {
        PyObject* bytes = value != nullptr ? value : value_.get();
        if (bytes == nullptr || PyBytes_GET_SIZE(bytes) == 0) return;
        keep(socket(), "bytes", bytes);
        restart_next();
    }
    [[nodiscard]] const char* name() const noexcept override { return "sock_recv"; }

  private:
    void begin() noexcept override;
    void received(const completion& done) noexcept override;
    void put_back(const completion& done) noexcept override;
    void deliver(const char* data, std::size_t size) noexcept;
    const std::size_t size_;
    ref value_;
};

void receive_work::deliver(const char* data, std::size_t size) noexcept {
    value_ = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(size)));
    if (value_) return owner().finish();
    PyErr_Clear();
    fail(-ENOMEM);
}

void receive_work::begin() noexcept {
    if (const ref kept = ref::steal(take_kept(socket(), "bytes"))) {
        const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(kept.get()));
        const std::size_t give = std::min(have, size_);
        keep_bytes(socket(), PyBytes_AS_STRING(kept.get()) + give, have - give);
        return deliver(PyBytes_AS_STRING(kept.get()), give);
    }
    if (size_ == 0) return deliver(nullptr, 0);
    op.prepare_receive(fd, false, size_);
    fly();
}

void receive_work::put_back(const completion& done) noexcept {
    if (done.buffer == no_buffer) return;
    const auto* data = reinterpret_cast<const char*>(io().buffer(done.buffer));
    if (done.result > 0) keep_bytes(socket(), data, static_cast<std::size_t>(done.result));
    io().release_buffer(done.buffer);
}

void receive_work::received(const completion& done) noexcept {
    if (done.result <= 0) return done.result < 0 ? fail(done.result) : deliver(nullptr, 0);
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
    owner().finish();
}

class receive_into_work final : public receiving {
  public:
    explicit receive_into_work(PyObject* socket) noexcept : receiving(socket) {}
    pinned_buffer buffer;

    PyObject* result() noexcept override {
        return raise_error() ? nullptr : PyLong_FromSize_t(got_);
    }
    void undelivered(PyObject* /*value*/) noexcept override {
        if (got_ == 0) return;
        keep_bytes(socket(), buffer.data(), got_);
        restart_next();
    }
    [[nodiscard]] const char* name() const noexcept override { return "sock_recv_into"; }

  private:
    void begin() noexcept override;
    void put_back(const completion& done) noexcept override {
        if (done.result > 0)
            keep_bytes(socket(), buffer.data(), static_cast<std::size_t>(done.result));
    }
    void received(const completion& done) noexcept override {
        if (done.result < 0) return fail(done.result);
        got_ = static_cast<std::size_t>(done.result);
        owner().finish();
    }
    std::size_t got_ = 0;
};

void receive_into_work::begin() noexcept {
    if (const ref kept = ref::steal(take_kept(socket(), "bytes"))) {
        const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(kept.get()));
        got_ = std::min(have, buffer.size());
        std::copy_n(PyBytes_AS_STRING(kept.get()), got_, buffer.data());
        keep_bytes(socket(), PyBytes_AS_STRING(kept.get()) + got_, have - got_);
        return owner().finish();
    }
    if (buffer.size() == 0) return owner().finish();
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
