// Transfers between a file and the caller's buffer, which stays pinned until they end: readinto(),
// write(), pwrite(); and fsync(). Rules in files.hpp. Thread: the loop's, GIL held.
#include <algorithm>
#include <cerrno>

#include "files_reading.hpp"
#include "pinned_buffer.hpp"
#include "poll_events.hpp"
#include "ringloop/bridge/python/errors.hpp"

namespace ringloop::python {
namespace {

class read_into_work final : public reading_work {
  public:
    explicit read_into_work(file_object* on) noexcept : reading_work(on, -1) {}
    pinned_buffer buffer;

    PyObject* result() noexcept override {
        return raise_error() ? nullptr : PyLong_FromSize_t(done_);
    }
    [[nodiscard]] const char* name() const noexcept override { return "readinto"; }

  private:
    void begin() noexcept override {
        at_ = file->position;
        if (buffer.size() == 0) return end();
        if (file->kept == nullptr) return advance();
        done_ = take_kept(buffer.data(), buffer.size());
        end();
    }
    std::span<char> room() noexcept override {
        return {buffer.data() + done_, buffer.size() - done_};
    }
    bool complete(std::size_t asked, std::size_t got) noexcept override {
        if (done_ == buffer.size() || !file->positional) return true;
        return got != asked && at_end();
    }
    const char* taken(PyObject*) noexcept override { return buffer.data(); }
};

class write_work final : public file_work {
  public:
    write_work(file_object* on, std::int64_t offset) noexcept
        : file_work(on, offset < 0), at_(offset) {}
    pinned_buffer buffer;

    PyObject* result() noexcept override {
        return raise_error() ? nullptr : PyLong_FromSize_t(done_);
    }
    [[nodiscard]] const char* name() const noexcept override { return "write"; }

  private:
    void begin() noexcept override {
        if (sequential) at_ = file->position;
        if (buffer.size() == 0) return end();
        advance();
    }
    void proceed(long result) noexcept override;
    void settle() noexcept override;
    void advance() noexcept;

    std::size_t done_ = 0;
    std::int64_t at_;
    bool polling_ = false;
};

void write_work::advance() noexcept {
    if (!file->positional && !polling_) {
        polling_ = true;
        op.prepare_poll(file->fd, poll_out);
    } else {
        polling_ = false;
        const std::size_t max = file->positional ? chunk_size : stream_write_size;
        const bool here = !file->positional || (file->append && sequential);
        op.prepare_write(file->fd, buffer.data() + done_, std::min(buffer.size() - done_, max),
                         here ? -1 : at_ + static_cast<std::int64_t>(done_));
    }
    submit_counted();
}

void write_work::proceed(long result) noexcept {
    if (cancelling && (polling_ || result < 0)) return end();
    if (result < 0 && result != -EAGAIN && result != -EINTR) return fail(result);
    if (!polling_ && result > 0) done_ += static_cast<std::size_t>(result);
    if (!polling_ && result == 0) return fail(-EIO);
    if (done_ == buffer.size() || cancelling) return end();
    advance();
}

// What reached the file counts, also when the rest failed or was cancelled.
void write_work::settle() noexcept {
    if (!sequential || !file->positional || done_ == 0) return;
    descriptor_facts facts;
    if (file->append && io().inspect(file->fd, facts) == 0)
        file->position = facts.size;
    else
        file->position = at_ + static_cast<std::int64_t>(done_);
}

class fsync_work final : public file_work {
  public:
    fsync_work(file_object* on, bool data_only) noexcept
        : file_work(on, true), data_only_(data_only) {}
    PyObject* result() noexcept override { return raise_error() ? nullptr : Py_NewRef(Py_None); }
    [[nodiscard]] const char* name() const noexcept override { return "fsync"; }

  private:
    void begin() noexcept override {
        op.prepare_fsync(file->fd, data_only_);
        submit_counted();
    }
    void proceed(long result) noexcept override {
        if (result < 0 && !cancelling) return fail(result);
        end();
    }
    const bool data_only_;
};

template <typename Work>
PyObject* await_pinned(std::unique_ptr<Work> work, PyObject* object, int flags) noexcept {
    if (!work) return PyErr_NoMemory();
    if (!work->buffer.take(object, flags)) return nullptr;
    return bridge::new_awaitable(std::move(work));
}

}  // namespace

PyObject* await_read_into(file_object* file, PyObject* buffer) noexcept {
    return await_pinned(std::unique_ptr<read_into_work>(new (std::nothrow) read_into_work(file)),
                        buffer, PyBUF_WRITABLE);
}

PyObject* await_write(file_object* file, PyObject* data, std::int64_t offset) noexcept {
    if (PyUnicode_Check(data))
        return PyErr_Format(PyExc_TypeError, "a binary file takes bytes or a buffer, not str");
    return await_pinned(std::unique_ptr<write_work>(new (std::nothrow) write_work(file, offset)),
                        data, PyBUF_SIMPLE);
}

PyObject* await_fsync(file_object* file, bool data_only) noexcept {
    return bridge::await_source<fsync_work>(file, data_only);
}

}  // namespace ringloop::python
