// Reads into new bytes objects: read(n), read(), pread(). Rules in files.hpp.
// Thread: the loop's, GIL held.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "files.hpp"
#include "poll_events.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

class read_work final : public file_work {
  public:
    // `offset` -1: at the file's position.
    read_work(file_object* on, std::size_t size, std::int64_t offset, bool all) noexcept
        : file_work(on, offset < 0), size_(size), at_(offset), all_(all) {
        takes_back = sequential;
    }
    ~read_work() override { Py_XDECREF(bytes_); }

    PyObject* result() noexcept override;
    void undelivered(PyObject* value) noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "read"; }

  private:
    void begin() noexcept override;
    void proceed(long result) noexcept override;
    void settle() noexcept override;
    void advance() noexcept;
    [[nodiscard]] bool serve_kept() noexcept;
    [[nodiscard]] std::size_t first_size() noexcept;
    [[nodiscard]] bool took(std::size_t asked, std::size_t got) noexcept;
    [[nodiscard]] bool reserve(std::size_t size) noexcept;
    [[nodiscard]] char* target() noexcept { return PyBytes_AS_STRING(bytes_) + done_; }

    const std::size_t size_;
    std::size_t capacity_ = 0;
    std::size_t done_ = 0;
    std::int64_t at_;
    PyObject* bytes_ = nullptr;
    const bool all_;
    bool polling_ = false;
};

bool read_work::reserve(std::size_t size) noexcept {
    if (bytes_ == nullptr)
        bytes_ = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(size));
    else
        _PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(size));
    capacity_ = size;
    if (bytes_ != nullptr) return true;
    PyErr_Clear();
    fail(-ENOMEM);
    return false;
}

// How much to make room for: never more than a file has, whatever the caller asked for.
std::size_t read_work::first_size() noexcept {
    if (!file->positional) return all_ ? chunk_size : std::min(size_, chunk_size);
    if (!all_ && size_ <= in_place_size_max) return size_;
    descriptor_facts facts;
    static_cast<void>(io().inspect(file->fd, facts));
    const std::size_t left =
        facts.size > at_ ? static_cast<std::size_t>(facts.size - at_) : std::size_t{0};
    // One byte more shows the end; files of /proc claim to be empty.
    return all_ ? (left == 0 ? 4096 : left + 1)
                : std::min(size_, std::max(left, in_place_size_max));
}

// What a cancelled read of a stream left behind comes first.
bool read_work::serve_kept() noexcept {
    if (!sequential || file->kept == nullptr) return false;
    const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(file->kept));
    const std::size_t take = all_ ? have : std::min(size_, have);
    if (!reserve(all_ ? have + chunk_size : take)) return true;
    std::copy_n(PyBytes_AS_STRING(file->kept), take, target());
    done_ = take;
    ref rest = take < have
                   ? ref::steal(PyBytes_FromStringAndSize(PyBytes_AS_STRING(file->kept) + take,
                                                          static_cast<Py_ssize_t>(have - take)))
                   : ref();
    Py_XSETREF(file->kept, rest.release());
    if (all_) return false;
    end();
    return true;
}

void read_work::begin() noexcept {
    if (sequential) at_ = file->position;
    if (serve_kept()) return;
    if (size_ == 0 && !all_) {
        if (reserve(0)) end();
        return;
    }
    if (bytes_ == nullptr && !reserve(first_size())) return;
    advance();
}

void read_work::advance() noexcept {
    if (!file->positional) {
        polling_ = true;
        op.prepare_poll(file->fd, poll_in);
        submit_counted();
        return;
    }
    if (done_ == capacity_ && !reserve(capacity_ + std::max(capacity_ / 2, in_place_size_max)))
        return;
    const auto offset = at_ + static_cast<std::int64_t>(done_);
    std::size_t asked = capacity_ - done_;
    while (asked <= in_place_size_max && may_try_in_place()) {
        const ssize_t got = io().try_pread(file->fd, target(), asked, offset);
        if (got < 0 && !needs_ring(got)) return fail(got);
        if (got < 0) break;
        ++host().files_in_place;
        if (took(asked, static_cast<std::size_t>(got))) return end();
        return advance();
    }
    op.prepare_read(file->fd, target(), std::min(asked, chunk_size), offset);
    submit_counted();
}

// Accounts for `got` bytes; true when the read is complete.
bool read_work::took(std::size_t asked, std::size_t got) noexcept {
    done_ += got;
    if (got == 0) return true;
    if (!file->positional) return !all_;
    if (!all_ && done_ == capacity_) return true;
    if (got == asked && done_ != capacity_ - 1) return false;
    // Short: at the end of the file, or only this much was in the page cache.
    descriptor_facts facts;
    if (io().inspect(file->fd, facts) != 0) return false;
    return facts.size > 0 && at_ + static_cast<std::int64_t>(done_) >= facts.size;
}

void read_work::proceed(long result) noexcept {
    if (polling_) {
        polling_ = false;
        if (cancelling) return end();
        if (result < 0) return fail(result);
        if (done_ == capacity_ && !reserve(capacity_ * 2)) return;
        op.prepare_read(file->fd, target(), std::min(capacity_ - done_, chunk_size), -1);
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

void read_work::settle() noexcept {
    if (sequential && file->positional && error == 0 && !cancelling)
        file->position = at_ + static_cast<std::int64_t>(done_);
}

PyObject* read_work::result() noexcept {
    if (raise_error()) return nullptr;
    if (done_ != capacity_ && _PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(done_)) < 0)
        return nullptr;
    return std::exchange(bytes_, nullptr);
}

void read_work::undelivered(PyObject* value) noexcept {
    if (file->positional) {
        const std::int64_t moved_to = at_ + static_cast<std::int64_t>(done_);
        if (value != nullptr && file->position == moved_to && file->current == nullptr)
            file->position = at_;
        return;
    }
    if (done_ == 0) return;
    const char* data = PyBytes_AS_STRING(value != nullptr ? value : bytes_);
    ref front = ref::steal(PyBytes_FromStringAndSize(data, static_cast<Py_ssize_t>(done_)));
    if (front && file->kept != nullptr) {
        PyObject* joined = front.release();
        PyBytes_Concat(&joined, file->kept);
        front = ref::steal(joined);
    }
    if (!front) {
        PyErr_WriteUnraisable(file->object());
        return;
    }
    Py_XSETREF(file->kept, front.release());
}

}  // namespace

PyObject* await_read(file_object* file, Py_ssize_t size, std::int64_t offset) noexcept {
    return bridge::await_source<read_work>(file, static_cast<std::size_t>(size), offset, false);
}

PyObject* await_read_all(file_object* file) noexcept {
    return bridge::await_source<read_work>(file, std::size_t{0}, std::int64_t{-1}, true);
}

}  // namespace ringloop::python
