// Closing. Contract in files_close.hpp. Thread: the loop's, GIL held.
#include "files_close.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ringloop/bridge/python/errors.hpp"

namespace ringloop::python {

close_work::close_work(file_object* file) noexcept : file_(file) {
    Py_INCREF(file_->object());
}

close_work::~close_work() {
    Py_DECREF(file_->object());
}

void close_work::start(bridge::loop_host& host, bridge::awaitable& owner) noexcept {
    bind(host, owner);
    closes_ = !std::exchange(file_->closing, true);
    if (!closes_ || file_->users == 0)
        begin();
    else
        file_->closer = this;
}

// Closing what was only read frees nothing that takes long; data to be written back may.
void close_work::begin() noexcept {
    if (!closes_ || file_->fd < 0) return owner().finish();
    fd_ = std::exchange(file_->fd, -1);
    --files_live;
    if (file_->writable || !file_->positional) {
        op.prepare_close(fd_);
        submit();
        return;
    }
    error_ = -io().close(fd_);
    owner().finish();
}

void close_work::completed(const completion& done) noexcept {
    // Only a closing loop cancels it: the descriptor must not outlive that.
    error_ = done.result == -ECANCELED ? -io().close(fd_) : -std::min(done.result, 0);
    owner().finish();
}

// Does not wait for the others any more: the last of them closes the file.
void close_work::request_cancel() noexcept {
    if (file_->closer != this) return;
    file_->closer = nullptr;
    owner().finish();
}

// The loop is closing. Works still under way hold the file; its last reference closes it.
void close_work::collect() noexcept {
    if (file_->closer == this) {
        file_->closer = nullptr;
        owner().finish();
        return;
    }
    io().retire(op);
}

PyObject* close_work::result() noexcept {
    if (error_ == 0) Py_RETURN_NONE;
    bridge::raise_errno(error_, file_->name);
    return nullptr;
}

PyObject* await_close(file_object* file) noexcept {
    if (file->closing || file->fd < 0) return bridge::finished_none();
    return bridge::await_source<close_work>(file);
}

}  // namespace ringloop::python
