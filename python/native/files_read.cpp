// Reads into new bytes objects: read(n), read(), pread(). Rules in files.hpp.
// Thread: the loop's, GIL held.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "files_reading.hpp"

namespace ringloop::python {
namespace {

class read_work final : public reading_work {
  public:
    // `offset` -1: at the file's position.
    read_work(file_object* on, std::size_t size, std::int64_t offset, bool all) noexcept
        : reading_work(on, offset), size_(size), all_(all) {}
    ~read_work() override { Py_XDECREF(bytes_); }

    PyObject* result() noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "read"; }

  private:
    void begin() noexcept override;
    std::span<char> room() noexcept override;
    bool complete(std::size_t asked, std::size_t got) noexcept override;
    const char* taken(PyObject* value) noexcept override {
        return PyBytes_AS_STRING(value != nullptr ? value : bytes_);
    }
    [[nodiscard]] bool serve_kept() noexcept;
    [[nodiscard]] std::size_t first_size() noexcept;
    [[nodiscard]] bool reserve(std::size_t size) noexcept;

    const std::size_t size_;
    std::size_t capacity_ = 0;
    PyObject* bytes_ = nullptr;
    const bool all_;
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

std::span<char> read_work::room() noexcept {
    std::size_t more = file->positional ? std::max(capacity_ / 2, in_place_size_max) : capacity_;
    if (!all_) more = std::min(more, size_ - done_);
    if (done_ == capacity_ && !reserve(capacity_ + more)) return {};
    return {PyBytes_AS_STRING(bytes_) + done_, capacity_ - done_};
}

// How much to make room for: never more than a file has, whatever the caller asked for. Those that
// do not say what they have, and those that grow, get more as they are read.
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

// What a cancelled read of a stream left behind comes first. True: that was all, *this has ended.
bool read_work::serve_kept() noexcept {
    if (!sequential || file->kept == nullptr) return false;
    const auto have = static_cast<std::size_t>(PyBytes_GET_SIZE(file->kept));
    const std::size_t take = all_ ? have : std::min(size_, have);
    if (!reserve(all_ ? have + chunk_size : take)) return true;
    done_ = take_kept(PyBytes_AS_STRING(bytes_), take);
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

bool read_work::complete(std::size_t asked, std::size_t got) noexcept {
    if (!file->positional) return !all_;
    if (!all_ && done_ == size_) return true;
    return (got != asked || done_ + 1 >= capacity_) && at_end();
}

PyObject* read_work::result() noexcept {
    if (raise_error()) return nullptr;
    if (done_ != capacity_ && _PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(done_)) < 0)
        return nullptr;
    return std::exchange(bytes_, nullptr);
}

}  // namespace

PyObject* await_read(file_object* file, Py_ssize_t size, std::int64_t offset) noexcept {
    return bridge::await_source<read_work>(file, static_cast<std::size_t>(size), offset, false);
}

PyObject* await_read_all(file_object* file) noexcept {
    return bridge::await_source<read_work>(file, std::size_t{0}, std::int64_t{-1}, true);
}

}  // namespace ringloop::python
