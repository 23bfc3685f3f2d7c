// What reads of a file share. Contract in files_reading.hpp.
#include "files_reading.hpp"

#include <algorithm>
#include <cerrno>

#include "poll_events.hpp"

namespace ringloop::python {

using bridge::ref;

void reading_work::advance() noexcept {
    if (!file->positional) {
        polling_ = true;
        op.prepare_poll(file->fd, poll_in);
        submit_counted();
        return;
    }
    const std::span<char> to = room();
    if (to.empty()) return;
    const auto offset = at_ + static_cast<std::int64_t>(done_);
    if (to.size() <= in_place_size_max && may_try_in_place()) {
        const ssize_t got = io().try_pread(file->fd, to.data(), to.size(), offset);
        if (got < 0 && !needs_ring(got)) return fail(got);
        if (got >= 0) {
            ++host().files_in_place;
            if (took(to.size(), static_cast<std::size_t>(got))) return end();
            return advance();
        }
    }
    op.prepare_read(file->fd, to.data(), std::min(to.size(), chunk_size), offset);
    submit_counted();
}

void reading_work::proceed(long result) noexcept {
    if (polling_) {
        polling_ = false;
        if (cancelling) return end();
        if (result < 0) return fail(result);
        const std::span<char> to = room();
        if (to.empty()) return;
        op.prepare_read(file->fd, to.data(), std::min(to.size(), chunk_size), -1);
        submit_counted();
        return;
    }
    if (result >= 0) {
        const std::size_t asked = op.arguments.memory.size;
        if (took(asked, static_cast<std::size_t>(result)) || cancelling) return end();
    } else if (cancelling) {
        return end();
    } else if (result != -EAGAIN && result != -EINTR) {
        return fail(result);
    }
    advance();
}

void reading_work::settle() noexcept {
    if (sequential && file->positional && error == 0 && !cancelling)
        file->position = at_ + static_cast<std::int64_t>(done_);
}

std::size_t reading_work::take_kept(char* to, std::size_t max) noexcept {
    const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(file->kept));
    const std::size_t take = std::min(have, max);
    const char* bytes = PyBytes_AS_STRING(file->kept);
    std::copy_n(bytes, take, to);
    ref rest = take < have ? ref::steal(PyBytes_FromStringAndSize(
                                 bytes + take, static_cast<Py_ssize_t>(have - take)))
                           : ref();
    Py_XSETREF(file->kept, rest.release());
    return take;
}

bool reading_work::at_end() noexcept {
    descriptor_facts facts;
    if (io().inspect(file->fd, facts) != 0) return false;
    return facts.size > 0 && at_ + static_cast<std::int64_t>(done_) >= facts.size;
}

void reading_work::undelivered(PyObject* value) noexcept {
    if (file->positional) {
        const std::int64_t moved_to = at_ + static_cast<std::int64_t>(done_);
        if (value != nullptr && file->position == moved_to && file->current == nullptr)
            file->position = at_;
        return;
    }
    if (done_ == 0) return;
    PyObject* front = PyBytes_FromStringAndSize(taken(value), static_cast<Py_ssize_t>(done_));
    if (front != nullptr && file->kept != nullptr) PyBytes_Concat(&front, file->kept);
    if (front == nullptr)
        PyErr_WriteUnraisable(file->object());
    else
        Py_XSETREF(file->kept, front);
}

}  // namespace ringloop::python
