// The sources of a shared handle's awaits. Contract in handle_sources.hpp.
#include "handle_sources.hpp"

#include <poll.h>

#include <cerrno>
#include <cstring>

#include "ringloop/bridge/python/errors.hpp"

namespace ringloop::bridge {

// ---- a token's completion

completion_source::~completion_source() {
    if (how_ == token_end::waiting && token_ != 0 && !handle_.forked())
        handle_.consumer().abandon(token_);
    handle_.release();
}

void completion_source::start(loop_host& host, awaitable& owner) noexcept {
    owner_ = &owner;
    if (how_ == token_end::waiting && &host != handle_.host()) {
        handle_.consumer().abandon(token_);
        how_ = token_end::other_loop;
    }
    if (how_ != token_end::waiting) owner.finish();
}

void completion_source::request_cancel() noexcept {
    if (how_ == token_end::waiting) owner_->finish();
}

void completion_source::arrived(const ringloop_record& record) noexcept {
    number_ = static_cast<std::uint32_t>(record.error);
    kind_ = record.kind;
    size_ = record.size;
    std::memcpy(data_.data(), record.data, sizeof record.data);
    how_ = token_end::record;
    if (owner_ != nullptr) owner_->finish();
}

void completion_source::end(token_end how, std::uint32_t number) noexcept {
    how_ = how;
    number_ = number;
    if (owner_ != nullptr) owner_->finish();
}

PyObject* completion_source::value() const noexcept {
    if (number_ != 0) {
        raise_errno(static_cast<std::int32_t>(number_));
        return nullptr;
    }
    switch (kind_) {
        case RINGLOOP_NONE:
            return Py_NewRef(Py_None);
        case RINGLOOP_INT: {
            std::int64_t number = 0;
            std::memcpy(&number, data_.data(), sizeof number);
            return PyLong_FromLongLong(number);
        }
        case RINGLOOP_DOUBLE: {
            double number = 0;
            std::memcpy(&number, data_.data(), sizeof number);
            return PyFloat_FromDouble(number);
        }
        case RINGLOOP_BYTES:
            return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(data_.data()), size_);
        default:
            raise_os_error(EPROTO,
                           "a producer completed this await with a record of unknown kind %u",
                           unsigned{kind_});
            return nullptr;
    }
}

PyObject* completion_source::result() noexcept {
    switch (how_) {
        case token_end::record:
            return value();
        case token_end::lost:
            raise_os_error(ECONNRESET,
                           number_ == 0 ? "the producer of lane %u left before it completed this "
                                          "await"
                                        : "the producer of lane %u (process %u) ended before it "
                                          "completed this await",
                           ringloop_token_lane(token_), number_);
            return nullptr;
        case token_end::closed:
            raise_os_error(ECONNABORTED,
                           "the shared handle was closed before this await was completed");
            return nullptr;
        case token_end::failed:
            raise_os_error(static_cast<int>(number_),
                           "the shared handle's eventfd can no longer be polled: it was closed "
                           "behind the handle's back");
            return nullptr;
        default:
            PyErr_SetString(PyExc_RuntimeError,
                            "this await belongs to the event loop on which its shared handle was "
                            "used first: await it there, and give each loop a handle of its own");
            return nullptr;
    }
}

// ---- the eventfd

void wake_source::start(loop_host& host, awaitable& owner) noexcept {
    bind(host, owner);
    handle_.bound(host);
    wait();
}

// What one turn left over needs no descriptor: the next turn goes on.
void wake_source::wait() noexcept {
    if (handle_.consumer().announce_sleep())
        op.prepare_poll(handle_.view().wake_fd, POLLIN);
    else
        op.prepare_nop();
    submit();
}

void wake_source::completed(const completion& result) noexcept {
    const bool broken = result.result < 0 && !cancelling && result.result != -EINTR;
    if (!broken && !cancelling && !handle_.closed()) {
        handle_.turn();
        if (!cancelling && !handle_.closed()) return wait();
    }
    if (broken)
        handle_.ended(token_end::failed, -result.result);
    else
        handle_.ended(token_end::closed);
    owner().finish();
}

// ---- a producer's process

process_source::~process_source() {
    shared_handle::close_descriptor(pidfd_);
    handle_.release();
}

void process_source::start(loop_host& host, awaitable& owner) noexcept {
    bind(host, owner);
    op.prepare_poll(pidfd_, POLLIN);
    submit();
}

void process_source::completed(const completion& result) noexcept {
    handle_.watch_over(lane_, owner());
    if (!cancelling && result.result >= 0) handle_.process_ended(lane_, pid_);
    owner().finish();
}

}  // namespace ringloop::bridge
