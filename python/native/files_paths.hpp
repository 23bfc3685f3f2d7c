// files_paths: what awaits on paths share: the paths as given and as the kernel takes them, the
// error that names them as os does, counting in and out.
//
// Cancelled work ends when the kernel or the worker has let go of the paths. Work that must not be
// left half done (`to_the_end`) is not told of a cancel: its await ends with CancelledError, after
// the work.
// Thread: the loop's, GIL held.
#pragma once

#include <memory>
#include <new>
#include <utility>

#include "files.hpp"

namespace ringloop::python {

struct path_argument {
    bridge::ref given;    // for the object's name
    bridge::ref named;    // str or bytes, for messages
    bridge::ref encoded;  // bytes, without a NUL
    [[nodiscard]] const char* text() const noexcept { return PyBytes_AS_STRING(encoded.get()); }
    [[nodiscard]] bool is_bytes() const noexcept { return PyBytes_Check(named.get()) != 0; }
    // False with TypeError or ValueError set.
    [[nodiscard]] bool take(PyObject* object) noexcept {
        PyObject* bytes = nullptr;
        named = bridge::ref::steal(PyOS_FSPath(object));
        if (!named || PyUnicode_FSConverter(named.get(), &bytes) == 0) return false;
        encoded = bridge::ref::steal(bytes);
        given = bridge::ref::share(object);
        return true;
    }
    // str or bytes, as the path is.
    [[nodiscard]] PyObject* like_it(const char* data, std::size_t size) const noexcept {
        const auto length = static_cast<Py_ssize_t>(size);
        return is_bytes() ? PyBytes_FromStringAndSize(data, length)
                          : PyUnicode_DecodeFSDefaultAndSize(data, length);
    }
};

class path_work : public bridge::operation_source {
  public:
    void request_cancel() noexcept override {
        if (!to_the_end) operation_source::request_cancel();
    }

    path_argument path;
    path_argument second;  // of those that take two
    bool to_the_end = false;

  protected:
    void submit_counted() noexcept {
        ++host().files_in_flight;
        submit();
    }
    void counted_out() noexcept {
        --host().files_in_flight;
        host().files_in_place = 0;
    }
    // Sets OSError with the path, or both.
    PyObject* raise(long error) noexcept;
};

// An awaitable of a Work made from `arguments`; null with an exception set.
template <typename Work, typename... Arguments>
[[nodiscard]] PyObject* await_path(PyObject* path, Arguments... arguments) noexcept {
    std::unique_ptr<Work> work(new (std::nothrow) Work(arguments...));
    if (!work) return PyErr_NoMemory();
    if (!work->path.take(path)) return nullptr;
    return bridge::new_awaitable(std::move(work));
}
template <typename Work, typename... Arguments>
[[nodiscard]] PyObject* await_paths(PyObject* path, PyObject* second,
                                    Arguments... arguments) noexcept {
    std::unique_ptr<Work> work(new (std::nothrow) Work(arguments...));
    if (!work) return PyErr_NoMemory();
    if (!work->path.take(path) || !work->second.take(second)) return nullptr;
    return bridge::new_awaitable(std::move(work));
}

}  // namespace ringloop::python
