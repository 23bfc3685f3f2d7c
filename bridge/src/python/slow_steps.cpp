// Native steps that are long, told in debug mode as asyncio tells its slow callbacks, on any loop.
//
// A step is measured by the scheduler, without the GIL or with it, and told in the loop's next host
// phase: the log may run any Python code.
// Thread: the loop's.
#include <Python.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <string>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/host.hpp"
#include "ringloop/py/task_source.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

constexpr double usual_limit_s = 0.1;  // asyncio's, for a loop that has none

struct slow_report : posted {
    slow_report(const py::detail::task_base* owner, double seconds)
        : posted(&slow_report::tell), took_s(seconds) {
        if (owner == nullptr) return;
        what = "native coroutine '" + std::string(owner->name()) + "'";
        if (const std::string* site = owner->site())
            where = "\nAwaitable created at (most recent call last)\n" + *site;
    }
    std::string what = "a native coroutine";
    std::string where;
    double took_s;

  private:
    static void tell(posted& node) noexcept {
        const std::unique_ptr<slow_report> self(static_cast<slow_report*>(&node));
        const ref log = ref::steal(PyImport_ImportModule("asyncio.log"));
        const ref logger = log ? ref::steal(PyObject_GetAttrString(log.get(), "logger")) : ref();
        const ref said =
            logger
                ? ref::steal(PyObject_CallMethod(
                      logger.get(), "warning", "ssds", "Executing a step of %s took %.3f seconds%s",
                      self->what.c_str(), self->took_s, self->where.c_str()))
                : ref();
        if (!said) PyErr_WriteUnraisable(logger.get());
    }
};

// -1 with an exception set.
double limit_of(PyObject* loop) noexcept {
    const ref limit = ref::steal(PyObject_GetAttrString(loop, "slow_callback_duration"));
    if (limit) return PyFloat_AsDouble(limit.get());
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return -1;
    PyErr_Clear();
    return usual_limit_s;
}

// -1 with an exception set.
int debugs(PyObject* loop) noexcept {
    if (debug_is_forced()) return 1;
    const ref answer = ref::steal(PyObject_CallMethod(loop, "get_debug", nullptr));
    return answer ? PyObject_IsTrue(answer.get()) : -1;
}

}  // namespace

bool debug_is_forced() noexcept {
    static const bool forced = [] {
        const char* word = std::getenv("RINGLOOP_DEBUG");
        return word != nullptr && *word != '\0' && std::string(word) != "0";
    }();
    return forced;
}

void loop_host::watch_steps() noexcept {
    const int on = debugs(loop_);
    const double limit_s = on == 1 ? limit_of(loop_) : 0;
    if (PyErr_Occurred() != nullptr) {
        PyErr_WriteUnraisable(loop_);
        return;
    }
    watch_.limit_ns = static_cast<std::int64_t>(limit_s * 1e9);
    native_->watch_steps(on == 1 ? &watch_ : nullptr);
}

void loop_host::tell_slow_step(scheduler::step_watch& watch, void* owner,
                               std::int64_t took_ns) noexcept {
    loop_host& host = *static_cast<slow_steps&>(watch).host;
    if (host.ended_) return;
    try {
        auto told = std::make_unique<slow_report>(static_cast<py::detail::task_base*>(owner),
                                                  static_cast<double>(took_ns) * 1e-9);
        host.native_->post_host(*told.release());
    } catch (const std::bad_alloc&) {  // then nobody hears of this one
    }
}

}  // namespace ringloop::bridge
