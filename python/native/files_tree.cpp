// Changing names: rename(), unlink(), mkdir(), link(), symlink(), each one operation on the ring.
// Rules in files_paths.hpp. Thread: the loop's, GIL held.
#include <fcntl.h>

#include <algorithm>

#include "files_paths.hpp"

namespace ringloop::python {
namespace {

class name_work : public path_work {
  public:
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept final {
        bind(host, owner);
        prepare();
        submit_counted();
    }
    PyObject* result() noexcept final {
        return error_ == 0 ? Py_NewRef(Py_None) : raise(error_);
    }

  private:
    virtual void prepare() noexcept = 0;
    void completed(const completion& done) noexcept final {
        counted_out();
        error_ = std::min(done.result, 0);
        owner().finish();
    }
    int error_ = 0;
};

class rename_work final : public name_work {
  public:
    explicit rename_work(bool whole) noexcept { to_the_end = whole; }
    [[nodiscard]] const char* name() const noexcept override { return "rename"; }

  private:
    void prepare() noexcept override {
        op.prepare_rename(AT_FDCWD, path.text(), AT_FDCWD, second.text());
    }
};

class unlink_work final : public name_work {
  public:
    unlink_work(bool directory, bool whole) noexcept : flags_(directory ? AT_REMOVEDIR : 0) {
        to_the_end = whole;
    }
    [[nodiscard]] const char* name() const noexcept override {
        return flags_ != 0 ? "rmdir" : "unlink";
    }

  private:
    void prepare() noexcept override { op.prepare_unlink(AT_FDCWD, path.text(), flags_); }
    const int flags_;
};

class mkdir_work final : public name_work {
  public:
    explicit mkdir_work(mode_t mode) noexcept : mode_(mode) {}
    [[nodiscard]] const char* name() const noexcept override { return "mkdir"; }

  private:
    void prepare() noexcept override { op.prepare_mkdir(AT_FDCWD, path.text(), mode_); }
    const mode_t mode_;
};

class link_work final : public name_work {
  public:
    [[nodiscard]] const char* name() const noexcept override { return "link"; }

  private:
    void prepare() noexcept override {
        op.prepare_link(AT_FDCWD, path.text(), AT_FDCWD, second.text());
    }
};

class symlink_work final : public name_work {
  public:
    [[nodiscard]] const char* name() const noexcept override { return "symlink"; }

  private:
    void prepare() noexcept override {
        op.prepare_symlink(path.text(), AT_FDCWD, second.text());
    }
};

PyObject* rename(PyObject*, PyObject* args) noexcept {
    PyObject* from = nullptr;
    PyObject* to = nullptr;
    int whole = 0;
    if (PyArg_ParseTuple(args, "OO|p:rename", &from, &to, &whole) == 0) return nullptr;
    return await_paths<rename_work>(from, to, whole != 0);
}

PyObject* unlink(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int directory = 0;
    int whole = 0;
    if (PyArg_ParseTuple(args, "O|pp:unlink", &path, &directory, &whole) == 0) return nullptr;
    return await_path<unlink_work>(path, directory != 0, whole != 0);
}

PyObject* mkdir(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    int mode = 0777;
    if (PyArg_ParseTuple(args, "O|i:mkdir", &path, &mode) == 0) return nullptr;
    return await_path<mkdir_work>(path, static_cast<mode_t>(mode));
}

template <typename Work>
PyObject* two_paths(PyObject*, PyObject* args) noexcept {
    PyObject* path = nullptr;
    PyObject* second = nullptr;
    if (PyArg_ParseTuple(args, "OO", &path, &second) == 0) return nullptr;
    return await_paths<Work>(path, second);
}

}  // namespace

PyMethodDef tree_functions[] = {
    {"rename", rename, METH_VARARGS, "rename(src, dst, to_the_end=False)."},
    {"unlink", unlink, METH_VARARGS, "unlink(path, directory=False, to_the_end=False)."},
    {"mkdir", mkdir, METH_VARARGS, "mkdir(path, mode=0o777)."},
    {"link", two_paths<link_work>, METH_VARARGS, "link(src, dst)."},
    {"symlink", two_paths<symlink_work>, METH_VARARGS, "symlink(src, dst)."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
