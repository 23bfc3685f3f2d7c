// handled_scope: calls into Python as from an except clause. Thread: any, GIL held.
#pragma once

#include <Python.h>

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

// While it lives `exception` (null: none) is the one being handled: sys.exc_info() and
// logger.exception() of what is called see it.
class handled_scope {
  public:
    explicit handled_scope(PyObject* exception) noexcept
        : before_(bridge::ref::steal(PyErr_GetHandledException())) {
        PyErr_SetHandledException(exception);
    }
    handled_scope(const handled_scope&) = delete;
    handled_scope& operator=(const handled_scope&) = delete;
    ~handled_scope() { PyErr_SetHandledException(before_.get()); }

  private:
    bridge::ref before_;
};

}  // namespace ringloop::python
