// Operations on paths: open_file(), read_bytes() (open, read, close as one await) and stat().
// Rules in files.hpp and files_paths.hpp. Thread: the loop's, GIL held.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "files_paths.hpp"
#include "ringloop/bridge/python/errors.hpp"

namespace ringloop::python {

using bridge::ref;

PyObject* path_work::raise(long error) noexcept {
    if (!second.named) {
        bridge::raise_errno(error, path.named.get());
        return nullptr;
    }
    const int code = static_cast<int>(error < 0 ? -error : error);
    const ref exception =
        ref::steal(PyObject_CallFunction(PyExc_OSError, "isOOO", code, std::strerror(code),
                                         path.named.get(), Py_None, second.named.get()));
    if (exception)
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
    return nullptr;
}

namespace {

// ---- open

class open_work final : public path_work {
  public:
    open_work(int flags, mode_t mode, int access, bool whole) noexcept
        : flags_(flags), mode_(mode), access_(access) {
        takes_back = true;
        to_the_end = whole;
    }
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override {
        bind(host, owner);
        op.prepare_open(AT_FDCWD, path.text(), flags_, mode_);
        submit_counted();
    }
    PyObject* result() noexcept override;
    void undelivered(PyObject* value) noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "open"; }

  private:
    void completed(const completion& done) noexcept override {
        counted_out();
        outcome_ = done.result;
        if (outcome_ >= 0) inspected_ = io().inspect(outcome_, facts_);
        owner().finish();
    }
    const int flags_;
    const mode_t mode_;
    const int access_;
    int outcome_ = -ECANCELED;  // a descriptor, or a negated errno
    int inspected_ = 0;
    descriptor_facts facts_;
};

PyObject* open_work::result() noexcept {
    if (outcome_ < 0) return raise(outcome_);
    const int fd = std::exchange(outcome_, -ECANCELED);
    const int error = inspected_ == 0 && facts_.directory ? -EISDIR : inspected_;
    if (error == 0) return new_file(fd, facts_, path.given.get(), access_);
    close_descriptor(fd);
    return raise(error);
}

void open_work::undelivered(PyObject* value) noexcept {
    int fd = std::exchange(outcome_, -ECANCELED);
    if (value != nullptr) {
        auto* file = reinterpret_cast<file_object*>(value);
        file->closing = true;
        fd = std::exchange(file->fd, -1);
        if (fd >= 0) --files_live;
    }
    if (fd >= 0) close_descriptor(fd);
}

// ---- a whole file

class read_bytes_work final : public path_work {
  public:
    ~read_bytes_work() override { Py_XDECREF(bytes_); }
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override {
        bind(host, owner);
        op.prepare_open(AT_FDCWD, path.text(), O_RDONLY, 0);
        submit_counted();
    }
    PyObject* result() noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "read_bytes"; }

  private:
    void completed(const completion& done) noexcept override;
    void opened() noexcept;
    void advance() noexcept;
    void end(long result) noexcept;
    [[nodiscard]] bool took(std::size_t got) noexcept;
    [[nodiscard]] char* target() noexcept { return PyBytes_AS_STRING(bytes_) + done_; }

    PyObject* bytes_ = nullptr;
    std::size_t capacity_ = 0;
    std::size_t done_ = 0;
    std::int64_t size_ = 0;  // as the file system says
    int fd_ = -1;
    int error_ = 0;
};

void read_bytes_work::completed(const completion& done) noexcept {
    counted_out();
    if (fd_ < 0) {
        if (done.result < 0) return end(done.result);
        fd_ = done.result;
        return cancelling ? end(0) : opened();
    }
    if (cancelling) return end(0);
    if (done.result < 0 && done.result != -EINTR && done.result != -EAGAIN) return end(done.result);
    if (done.result >= 0 && took(static_cast<std::size_t>(done.result))) return end(0);
    advance();
}

void read_bytes_work::opened() noexcept {
    descriptor_facts facts;
    if (const int error = io().inspect(fd_, facts); error != 0) return end(error);
    if (facts.directory) return end(-EISDIR);
    if (!facts.positional) return end(-ESPIPE);
    size_ = facts.size;
    capacity_ = size_ == 0 ? 4096 : static_cast<std::size_t>(size_) + 1;
    bytes_ = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(capacity_));
    if (bytes_ == nullptr) {
        PyErr_Clear();
        return end(-ENOMEM);
    }
    advance();
}

bool read_bytes_work::took(std::size_t got) noexcept {
    done_ += got;
    return got == 0 || (size_ != 0 && static_cast<std::int64_t>(done_) == size_);
}

void read_bytes_work::advance() noexcept {
    if (done_ == capacity_) {
        capacity_ += std::max(capacity_ / 2, in_place_size_max);
        if (_PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(capacity_)) < 0) {
            PyErr_Clear();
            return end(-ENOMEM);
        }
    }
    const auto offset = static_cast<std::int64_t>(done_);
    const std::size_t asked = capacity_ - done_;
    while (asked <= in_place_size_max && may_try_in_place(host())) {
        const ssize_t got = io().try_pread(fd_, target(), asked, offset);
        if (got < 0 && !needs_ring(got)) return end(got);
        if (got < 0) break;
        ++host().files_in_place;
        return took(static_cast<std::size_t>(got)) ? end(0) : advance();
    }
    op.prepare_read(fd_, target(), std::min(asked, chunk_size), offset);
    submit_counted();
}

void read_bytes_work::end(long result) noexcept {
    if (result < 0) error_ = static_cast<int>(-result);
    if (fd_ >= 0) static_cast<void>(io().close(std::exchange(fd_, -1)));
    owner().finish();
}

PyObject* read_bytes_work::result() noexcept {
    if (error_ == ESPIPE) {
        PyErr_Format(PyExc_OSError, "%R is a stream: open it and read()", path.named.get());
        return nullptr;
    }
    if (error_ != 0) return raise(error_);
    if (done_ != capacity_ && _PyBytes_Resize(&bytes_, static_cast<Py_ssize_t>(done_)) < 0)
        return nullptr;
    return std::exchange(bytes_, nullptr);
}

// ---- stat

PyObject* stat_result_type = nullptr;

class stat_work final : public path_work {
  public:
    explicit stat_work(int flags) noexcept : flags_(flags) {}
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override {
        bind(host, owner);
        op.prepare_statx(AT_FDCWD, path.text(), flags_, STATX_BASIC_STATS, &status_);
        submit_counted();
    }
    PyObject* result() noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "stat"; }

  private:
    void completed(const completion& done) noexcept override {
        counted_out();
        error_ = -std::min(done.result, 0);
        owner().finish();
    }
    const int flags_;
    int error_ = 0;
    struct statx status_ = {};
};

bool put_time(PyObject* names, const char* base, const statx_timestamp& time) noexcept {
    const auto seconds = static_cast<long long>(time.tv_sec);
    const long long whole = seconds * 1'000'000'000 + time.tv_nsec;
    const double rounded = static_cast<double>(seconds) + 1e-9 * time.tv_nsec;
    char key[24];
    std::snprintf(key, sizeof key, "%s_ns", base);
    const ref exact = ref::steal(PyLong_FromLongLong(whole));
    const ref real = ref::steal(PyFloat_FromDouble(rounded));
    return exact && real && PyDict_SetItemString(names, key, exact.get()) == 0 &&
           PyDict_SetItemString(names, base, real.get()) == 0;
}

PyObject* stat_work::result() noexcept {
    if (error_ != 0) return raise(error_);
    const struct statx& s = status_;
    const ref sequence = ref::steal(Py_BuildValue(
        "(IKKIIILLLL)", s.stx_mode, s.stx_ino,
        static_cast<unsigned long long>(makedev(s.stx_dev_major, s.stx_dev_minor)), s.stx_nlink,
        s.stx_uid, s.stx_gid, static_cast<long long>(s.stx_size),
        static_cast<long long>(s.stx_atime.tv_sec), static_cast<long long>(s.stx_mtime.tv_sec),
        static_cast<long long>(s.stx_ctime.tv_sec)));
    const ref names = ref::steal(Py_BuildValue(
        "{s:I,s:K,s:K}", "st_blksize", s.stx_blksize, "st_blocks", s.stx_blocks, "st_rdev",
        static_cast<unsigned long long>(makedev(s.stx_rdev_major, s.stx_rdev_minor))));
    if (!sequence || !names || !put_time(names.get(), "st_atime", s.stx_atime) ||
        !put_time(names.get(), "st_mtime", s.stx_mtime) ||
        !put_time(names.get(), "st_ctime", s.stx_ctime))
        return nullptr;
    if (stat_result_type == nullptr) {
        const ref os = ref::steal(PyImport_ImportModule("os"));
        if (!os) return nullptr;
        stat_result_type = PyObject_GetAttrString(os.get(), "stat_result");
        if (stat_result_type == nullptr) return nullptr;
    }
    return PyObject_CallFunctionObjArgs(stat_result_type, sequence.get(), names.get(), nullptr);
}

// ---- functions

PyObject* open_file(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int flags = 0;
    unsigned mode = 0;
    int to_the_end = 0;
    if (PyArg_ParseTuple(args, "OiI|p", &path, &flags, &mode, &to_the_end) == 0) return nullptr;
    const int way = flags & O_ACCMODE;
    const int access = (way != O_WRONLY ? access_read : 0) | (way != O_RDONLY ? access_write : 0) |
                       ((flags & O_APPEND) != 0 ? access_append : 0);
    return await_path<open_work>(path, flags, static_cast<mode_t>(mode), access, to_the_end != 0);
}

PyObject* read_bytes(PyObject*, PyObject* path) noexcept {
    return await_path<read_bytes_work>(path);
}

PyObject* stat(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int follow = 1;
    if (PyArg_ParseTuple(args, "O|p", &path, &follow) == 0) return nullptr;
    return await_path<stat_work>(path, follow != 0 ? 0 : AT_SYMLINK_NOFOLLOW);
}

}  // namespace

PyMethodDef file_functions[] = {
    {"open_file", open_file, METH_VARARGS,
     "open_file(path, flags, mode, to_the_end=False): awaits a File."},
    {"read_bytes", read_bytes, METH_O, "read_bytes(path): awaits the contents."},
    {"stat", stat, METH_VARARGS, "stat(path, follow_symlinks=True): awaits an os.stat_result."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
