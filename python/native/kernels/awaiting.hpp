// From a call to an awaitable: the call becomes a job of the shared arena and is handed to
// _native's await_job, which knows the running loop. GIL held, except in run().
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "ringloop/bridge/python/api.hpp"
#include "ringloop/kernels/arena.hpp"
#include "ringloop/kernels/execution.hpp"
#include "ringloop/py/runtime.hpp"

namespace ringloop::python {

// The table of ringloop._native. Throws ImportError if it is missing or of another version.
[[nodiscard]] const bridge::python_table& native_api();

template <class Call>
class call_job final : public bridge::python_job {
  public:
    explicit call_job(Call&& call) : call_(std::move(call)) { where = &kernels::arena::shared(); }

    void run() override {
        finished_ = call_.compute(kernels::execution{this, &kernels::arena::shared()});
    }
    PyObject* result() noexcept override {
        if (!finished_) {  // nobody cancelled the await: the arena itself is stopping
            PyErr_SetString(PyExc_RuntimeError,
                            "the kernel was stopped because the interpreter is exiting");
            return nullptr;
        }
        try {
            return call_.result().release().ptr();
        } catch (pybind11::error_already_set& raised) {
            raised.restore();
        } catch (const std::exception& failure) {
            PyErr_SetString(PyExc_RuntimeError, failure.what());
        }
        return nullptr;
    }

  private:
    Call call_;
    bool finished_ = false;
};

// A new, unstarted ringloop.Awaitable.
template <class Call>
[[nodiscard]] pybind11::object await_call(Call&& call) {
    const bridge::python_table& api = native_api();
    auto job = std::make_unique<call_job<Call>>(std::forward<Call>(call));
    PyObject* awaitable = api.await_job(job.release());
    if (awaitable == nullptr) throw pybind11::error_already_set();
    return pybind11::reinterpret_steal<pybind11::object>(awaitable);
}

// Runs the call here and now, with the GIL released.
template <class Call>
[[nodiscard]] pybind11::object finish_call(Call&& call) {
    {
        const pybind11::gil_scoped_release released;
        (void)call.compute(kernels::execution{});  // nothing can stop it
    }
    return call.result();
}

}  // namespace ringloop::python
