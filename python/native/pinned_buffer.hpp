// pinned_buffer: the caller's memory, held in place while the kernel reads or writes it.
//
// One Py_buffer, released with it. Thread: any, GIL held.
#pragma once

#include <Python.h>

#include <cstddef>

namespace ringloop::python {

class pinned_buffer {
  public:
    pinned_buffer() noexcept = default;
    pinned_buffer(const pinned_buffer&) = delete;
    pinned_buffer& operator=(const pinned_buffer&) = delete;
    ~pinned_buffer() {
        if (view_.obj != nullptr) PyBuffer_Release(&view_);
    }
    [[nodiscard]] bool take(PyObject* object, int flags) noexcept {
        if (PyObject_GetBuffer(object, &view_, flags) == 0) return true;
        // As the standard library: what cannot be written to is of the wrong type.
        if ((flags & PyBUF_WRITABLE) != 0 && PyErr_ExceptionMatches(PyExc_BufferError))
            PyErr_Format(PyExc_TypeError, "a writable buffer is needed, not %.200s",
                         Py_TYPE(object)->tp_name);
        return false;
    }
    [[nodiscard]] char* data() const noexcept { return static_cast<char*>(view_.buf); }
    [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(view_.len); }

  private:
    Py_buffer view_ = {};
};

}  // namespace ringloop::python
