// py::ref, py::borrow: the two ways in which native code names a Python object.
//
// ref owns one reference. It may be moved, kept in a coroutine's frame and destroyed on any thread,
// with or without the GIL: a reference that ends without it is dropped by the interpreter's main
// thread soon after, or at the next thing that ringloop delivers to a loop. Copying takes the GIL,
// so it has a name: share().
// borrow is a parameter of a plain function that runs under the GIL: valid until it returns.
//
// A raw PyObject* says neither, and exported signatures with one do not compile.
//
// Thread: as said; get() gives a pointer that may be used with the GIL only.
#pragma once

#include <Python.h>

#include <utility>

#include "ringloop/py/gil.hpp"
#include "ringloop/py/runtime.hpp"

namespace ringloop::py {

class ref {
  public:
    ref() noexcept = default;
    ref(ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    ref& operator=(ref&& other) noexcept {
        ref taken(std::move(other));
        std::swap(object_, taken.object_);
        return *this;
    }
    ref(const ref&) = delete;
    ref& operator=(const ref&) = delete;
    ~ref() {
        if (object_ != nullptr) drop(object_);
    }

    // Takes over a new reference. GIL not needed.
    [[nodiscard]] static ref steal(PyObject* object) noexcept { return ref(object); }
    // Adds a reference of its own. GIL.
    [[nodiscard]] static ref share(PyObject* object) noexcept {
        Py_XINCREF(object);
        return ref(object);
    }
    [[nodiscard]] ref share() const noexcept { return share(object_); }  // GIL

    [[nodiscard]] PyObject* get() const noexcept { return object_; }
    [[nodiscard]] PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    explicit operator bool() const noexcept { return object_ != nullptr; }
    int traverse(visitproc visit, void* arg) const noexcept {  // for the collector
        Py_VISIT(object_);
        return 0;
    }

  private:
    explicit ref(PyObject* object) noexcept : object_(object) {}
    static void drop(PyObject* object) noexcept {
        // Before the runtime was found nothing native runs: only an import that ends here, maybe
        // in a subinterpreter, of which holds_gil() knows too little before CPython 3.12.
        if (detail::found_runtime == nullptr || holds_gil())
            Py_DECREF(object);
        else
            runtime().release_later(object);
    }
    PyObject* object_ = nullptr;
};

class borrow {
  public:
    explicit borrow(PyObject* object) noexcept : object_(object) {}
    [[nodiscard]] PyObject* get() const noexcept { return object_; }
    [[nodiscard]] ref share() const noexcept { return ref::share(object_); }

  private:
    PyObject* object_;
};

}  // namespace ringloop::py
