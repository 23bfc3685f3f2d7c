// What the ring has no operation for, by a worker of the driver: listing a directory, reading a
// symbolic link, access(), chmod(), truncate(), copying, adding a watch. Rules in files_paths.hpp.
//
// Thread: the loop's, GIL held; only work() is on the worker, and touches nothing of Python but the
// bytes of the paths. Cancel: a call that has not begun never does; a listing and a copy look at
// the stop flag, the others end by themselves.
#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "files_paths.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/fs/blocking.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

constexpr std::size_t copy_size_max = std::size_t{1} << 30;

file_object* file_of(PyObject* object) noexcept {
    return reinterpret_cast<file_object*>(object);
}

class call_work : public path_work {
  public:
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept final {
        bind(host, owner);
        op.prepare_call(&call_work::run, this);
        submit();
    }
    void request_cancel() noexcept final {
        stop_.store(true, std::memory_order_relaxed);
        path_work::request_cancel();
    }
    void collect() noexcept final {
        stop_.store(true, std::memory_order_relaxed);
        path_work::collect();
    }
    PyObject* result() noexcept final { return outcome_ < 0 ? raise(outcome_) : value(outcome_); }

  protected:
    virtual std::int32_t work() noexcept = 0;
    virtual PyObject* value(std::int32_t) noexcept { return Py_NewRef(Py_None); }
    std::atomic<bool> stop_{false};

  private:
    static std::int32_t run(void* self) noexcept { return static_cast<call_work*>(self)->work(); }
    void completed(const completion& done) noexcept final {
        outcome_ = done.result;
        owner().finish();
    }
    std::int32_t outcome_ = 0;
};

// ---- directories

class list_work final : public call_work {
  public:
    explicit list_work(bool kinds) noexcept : kinds_(kinds) {}
    [[nodiscard]] const char* name() const noexcept override { return "list_directory"; }

  private:
    std::int32_t work() noexcept override {
        return fs::list_directory(path.text(), kinds_, stop_, found_);
    }
    PyObject* value(std::int32_t) noexcept override;
    [[nodiscard]] ref item(const fs::directory_entry& entry) const noexcept;
    const bool kinds_;
    std::vector<fs::directory_entry> found_;
};

ref list_work::item(const fs::directory_entry& entry) const noexcept {
    ref name = ref::steal(path.like_it(entry.name.data(), entry.name.size()));
    if (!name || !kinds_) return name;
    return ref::steal(Py_BuildValue("(OKBB)", name.get(),
                                    static_cast<unsigned long long>(entry.inode), entry.kind,
                                    entry.target_kind));
}

PyObject* list_work::value(std::int32_t) noexcept {
    ref all = ref::steal(PyList_New(static_cast<Py_ssize_t>(found_.size())));
    if (!all) return nullptr;
    Py_ssize_t index = 0;
    for (const fs::directory_entry& entry : found_) {
        ref next = item(entry);
        if (!next) return nullptr;
        PyList_SET_ITEM(all.get(), index++, next.release());
    }
    return all.release();
}

// ---- links, modes, sizes

class read_link_work final : public call_work {
  public:
    [[nodiscard]] const char* name() const noexcept override { return "readlink"; }

  private:
    std::int32_t work() noexcept override { return fs::read_link(path.text(), target_); }
    PyObject* value(std::int32_t) noexcept override {
        return path.like_it(target_.data(), target_.size());
    }
    std::string target_;
};

class access_work final : public call_work {
  public:
    access_work(int mode, int flags) noexcept : mode_(mode), flags_(flags) {}
    [[nodiscard]] const char* name() const noexcept override { return "access"; }

  private:
    // Whatever speaks against it is a "no".
    std::int32_t work() noexcept override {
        return fs::check_access(path.text(), mode_, flags_) == 0 ? 1 : 0;
    }
    PyObject* value(std::int32_t allowed) noexcept override { return PyBool_FromLong(allowed); }
    const int mode_;
    const int flags_;
};

class chmod_work final : public call_work {
  public:
    explicit chmod_work(mode_t mode) noexcept : mode_(mode) {}
    [[nodiscard]] const char* name() const noexcept override { return "chmod"; }

  private:
    std::int32_t work() noexcept override { return fs::change_mode(path.text(), mode_); }
    const mode_t mode_;
};

class truncate_work final : public call_work {
  public:
    explicit truncate_work(std::int64_t size) noexcept : size_(size) {}
    [[nodiscard]] const char* name() const noexcept override { return "truncate"; }

  private:
    std::int32_t work() noexcept override { return fs::truncate_path(path.text(), size_); }
    const std::int64_t size_;
};

// ---- with open files, which stay open until the work has ended

class file_call_work : public file_work {
  public:
    void request_cancel() noexcept final {
        stop_.store(true, std::memory_order_relaxed);
        file_work::request_cancel();
    }
    void collect() noexcept final {
        stop_.store(true, std::memory_order_relaxed);
        file_work::collect();
    }

  protected:
    file_call_work(file_object* on, bool at_position) noexcept
        : file_work(on, at_position), fd_(on->fd) {}
    virtual std::int32_t work() noexcept = 0;
    const int fd_;
    std::int32_t outcome_ = 0;
    std::atomic<bool> stop_{false};

  private:
    void begin() noexcept final {
        op.prepare_call(&file_call_work::run, this);
        submit();
    }
    void proceed(long result) noexcept final {
        outcome_ = static_cast<std::int32_t>(result);
        if (result < 0 && !cancelling) return fail(result);
        end();
    }
    static std::int32_t run(void* self) noexcept {
        return static_cast<file_call_work*>(self)->work();
    }
};

class truncate_file_work final : public file_call_work {
  public:
    truncate_file_work(file_object* on, std::int64_t size) noexcept
        : file_call_work(on, true), size_(size) {}
    PyObject* result() noexcept override { return raise_error() ? nullptr : Py_NewRef(Py_None); }
    [[nodiscard]] const char* name() const noexcept override { return "truncate"; }

  private:
    std::int32_t work() noexcept override { return fs::truncate_file(fd_, size_); }
    const std::int64_t size_;
};

class copy_work final : public file_call_work {
  public:
    copy_work(file_object* from, file_object* to, std::int64_t offset, std::size_t size) noexcept
        : file_call_work(to, false),
          source_(ref::share(from->object())),
          from_(from->fd),
          offset_(offset),
          size_(size) {}
    PyObject* result() noexcept override {
        return raise_error() ? nullptr : PyLong_FromLong(outcome_);
    }
    [[nodiscard]] const char* name() const noexcept override { return "copy"; }

  private:
    std::int32_t work() noexcept override {
        return fs::copy_part(from_, fd_, offset_, size_, stop_);
    }
    const ref source_;
    const int from_;
    const std::int64_t offset_;
    const std::size_t size_;
};

class add_watch_work final : public file_call_work {
  public:
    add_watch_work(file_object* watcher, std::uint32_t events) noexcept
        : file_call_work(watcher, false), events_(events) {}
    PyObject* result() noexcept override {
        if (error == 0) return PyLong_FromLong(outcome_);
        bridge::raise_errno(error, path.named.get());
        return nullptr;
    }
    [[nodiscard]] const char* name() const noexcept override { return "add_watch"; }
    path_argument path;

  private:
    std::int32_t work() noexcept override { return fs::add_watch(fd_, path.text(), events_); }
    const std::uint32_t events_;
};

// ---- functions

PyObject* list_directory(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int kinds = 0;
    if (PyArg_ParseTuple(args, "Op", &path, &kinds) == 0) return nullptr;
    return await_path<list_work>(path, kinds != 0);
}

PyObject* read_link(PyObject*, PyObject* path) noexcept {
    return await_path<read_link_work>(path);
}

PyObject* access(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int mode = 0;
    int effective = 0;
    int follow = 1;
    if (PyArg_ParseTuple(args, "Oipp:access", &path, &mode, &effective, &follow) == 0)
        return nullptr;
    const int flags = (effective != 0 ? AT_EACCESS : 0) | (follow != 0 ? 0 : AT_SYMLINK_NOFOLLOW);
    return await_path<access_work>(path, mode, flags);
}

PyObject* chmod(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int mode = 0;
    if (PyArg_ParseTuple(args, "Oi:chmod", &path, &mode) == 0) return nullptr;
    return await_path<chmod_work>(path, static_cast<mode_t>(mode));
}

PyObject* truncate(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    long long size = 0;
    if (PyArg_ParseTuple(args, "OL:truncate", &path, &size) == 0) return nullptr;
    if (size < 0) return PyErr_Format(PyExc_ValueError, "length must not be negative: %lld", size);
    return await_path<truncate_work>(path, std::int64_t{size});
}

// The caller closes neither file before the await has ended.
PyObject* copy_part(PyObject*, PyObject* args) noexcept {
    PyObject* from = nullptr;
    PyObject* to = nullptr;
    long long offset = 0;
    Py_ssize_t size = 0;
    if (PyArg_ParseTuple(args, "O!O!Ln", file_type, &from, file_type, &to, &offset, &size) == 0)
        return nullptr;
    const std::size_t most = std::min(static_cast<std::size_t>(size), copy_size_max);
    return bridge::await_source<copy_work>(file_of(from), file_of(to), std::int64_t{offset}, most);
}

PyObject* open_watcher(PyObject*, PyObject* name) noexcept {
    const int fd = fs::open_watcher();
    if (fd < 0) {
        bridge::raise_errno(fd, name);
        return nullptr;
    }
    return new_file(fd, {}, name, access_read);
}

PyObject* add_watch(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    PyObject* watcher = nullptr;
    unsigned events = 0;
    if (PyArg_ParseTuple(args, "O!OI", file_type, &watcher, &path, &events) == 0) return nullptr;
    std::unique_ptr<add_watch_work> work(
        new (std::nothrow) add_watch_work(file_of(watcher), std::uint32_t{events}));
    if (!work) return PyErr_NoMemory();
    if (!work->path.take(path)) return nullptr;
    return bridge::new_awaitable(std::move(work));
}

// One that is gone is gone: the kernel removes a watch with its directory.
PyObject* remove_watch(PyObject*, PyObject* args) noexcept {
    PyObject* watcher = nullptr;
    int watch = 0;
    if (PyArg_ParseTuple(args, "O!i", file_type, &watcher, &watch) == 0) return nullptr;
    return PyBool_FromLong(fs::remove_watch(file_of(watcher)->fd, watch) == 0);
}

}  // namespace

PyObject* await_truncate(file_object* file, std::int64_t size) noexcept {
    return bridge::await_source<truncate_file_work>(file, size);
}

PyMethodDef call_functions[] = {
    {"list_directory", list_directory, METH_VARARGS,
     "list_directory(path, kinds): names, or tuples (name, inode, DT_*, DT_* of the target)."},
    {"read_link", read_link, METH_O, "read_link(path): what it points to."},
    {"access", access, METH_VARARGS, "access(path, mode, effective_ids, follow_symlinks): bool."},
    {"chmod", chmod, METH_VARARGS, "chmod(path, mode)."},
    {"truncate", truncate, METH_VARARGS, "truncate(path, size)."},
    {"copy_part", copy_part, METH_VARARGS,
     "copy_part(from, to, offset, size): how many bytes, fewer at the end."},
    {"open_watcher", open_watcher, METH_O, "open_watcher(name): a File of inotify's events."},
    {"add_watch", add_watch, METH_VARARGS, "add_watch(watcher, path, events): its number."},
    {"remove_watch", remove_watch, METH_VARARGS, "remove_watch(watcher, watch): if it was there."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
