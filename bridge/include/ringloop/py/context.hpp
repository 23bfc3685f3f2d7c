// Where a coroutine that Python awaits finds Python again: its context variables, and the GIL.
//
//     co_await py::hold_gil();              with the GIL until the next co_await that waits
//     auto context = co_await py::current_context();
//     py::ref value = context.get(variable);
//
// Both are inherited by everything that the coroutine awaits: groups, when_all, on() another
// scheduler. In coroutines that no Python await leads to, hold_gil() throws std::logic_error and
// the context is empty.
// Thread: hold_gil() on the loop's, not under on() another scheduler. Cancel: not interrupted.
#pragma once

#include <Python.h>

#include <coroutine>
#include <stdexcept>

#include "ringloop/py/error.hpp"
#include "ringloop/py/task_source.hpp"

namespace ringloop::py {

namespace detail {

template <class Promise>
[[nodiscard]] task_base* source_of(std::coroutine_handle<Promise> handle) noexcept {
    const stop_scope* scope = ringloop::detail::scope_of(handle);
    return scope != nullptr ? static_cast<task_base*>(scope->owner()) : nullptr;
}

// GIL. Throws error. `given` may be null: where the call stands.
[[nodiscard]] inline ref call_in(PyObject* given, PyObject* callable, PyObject* arguments,
                                 PyObject* names = nullptr) {
    ref context = ref::share(given);
    if (!context) context = ref::steal(PyContext_CopyCurrent());
    if (!context) throw error::take();
    if (PyContext_Enter(context.get()) < 0) {
        // Another task of this context is in the middle of a step, which led here: a copy will do.
        PyErr_Clear();
        context = ref::steal(PyContext_Copy(context.get()));
        if (!context || PyContext_Enter(context.get()) < 0) throw error::take();
    }
    ref answer = ref::steal(run_python(&PyObject_Call, callable, arguments, names));
    bridge::ref raised = answer ? bridge::ref() : bridge::take_exception();
    if (PyContext_Exit(context.get()) < 0) throw error::take();
    if (raised) {
        bridge::restore_exception(std::move(raised));
        throw_raised_exception();
    }
    return answer;
}

// The await's source, without a wait.
struct find_source {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept {
        found = source_of(handle);
        return false;
    }
    [[nodiscard]] task_base* await_resume() const noexcept { return found; }
    task_base* found = nullptr;
};

}  // namespace detail

// The contextvars.Context that an await was begun in.
class context {
  public:
    context() noexcept = default;
    explicit context(PyObject* borrowed) noexcept : context_(borrowed) {}
    explicit operator bool() const noexcept { return context_ != nullptr; }
    [[nodiscard]] PyObject* get() const noexcept { return context_; }  // borrowed from the await

    // What `variable` (a ContextVar) is in it; empty where it has neither value nor default.
    // Throws py::error. GIL.
    [[nodiscard]] ref get(PyObject* variable) const {
        PyObject* value = nullptr;
        if (context_ == nullptr) return {};
        // A copy, which costs next to nothing: the context itself may be entered already.
        const ref copy = ref::steal(PyContext_Copy(context_));
        if (!copy || PyContext_Enter(copy.get()) < 0) throw error::take();
        const int found = PyContextVar_Get(variable, nullptr, &value);
        const int left = PyContext_Exit(copy.get());
        ref kept = ref::steal(value);
        if (found < 0 || left < 0) throw error::take();
        return kept;
    }

  private:
    PyObject* context_ = nullptr;
};

// co_await current_context(): does not wait. Valid as long as the await.
struct current_context : detail::find_source {
    [[nodiscard]] context await_resume() const noexcept {
        return found != nullptr ? context(found->context()) : context();
    }
};

// co_await hold_gil(): goes on in the loop's host phase, where the GIL is held; where it is held
// already, at once.
class hold_gil {
  public:
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        detail::task_base* source = detail::source_of(handle);
        if (source == nullptr)
            throw std::logic_error(
                "ringloop::py::hold_gil(): no Python await leads to this coroutine");
        if (scheduler::current() != &source->host().native())
            throw std::logic_error(
                "ringloop::py::hold_gil(): not on the loop's thread; return from on() first");
        if (holds_gil()) return false;
        entry_.waiting = handle;
        source->host().native().note_wait(ringloop::detail::scope_of(handle));
        source->host().native().post_host(entry_);
        return true;
    }
    void await_resume() const noexcept {}

  private:
    struct entry : posted {
        entry() noexcept
            : posted([](posted& node) noexcept {
                  scheduler::current()->resume(static_cast<entry&>(node).waiting);
              }) {}
        std::coroutine_handle<> waiting;
    };
    entry entry_;
};

}  // namespace ringloop::py
