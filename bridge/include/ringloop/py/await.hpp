// co_await py::await(object): a Python awaitable (coroutine, future, task, anything with
// __await__) awaited by a coroutine that Python awaits. Gives what it returned, as py::ref.
//
// It runs as a task of the same loop, in a copy of the outer await's context. Cancel: a stop
// request cancels that task, and the coroutine goes on when Python has confirmed:
// operation_cancelled, or what the task ended with all the same. Each further cancel of the outer
// await cancels it again, as it may have refused the first. What it raises is thrown as py::error.
// Where the loop is closed meanwhile: operation_cancelled, without the task's end.
//
// Thread: the loop's; the coroutine goes on with the GIL, until its next wait.
#pragma once

#include <Python.h>

#include <coroutine>
#include <memory>
#include <utility>

#include "ringloop/error.hpp"
#include "ringloop/py/context.hpp"
#include "ringloop/stop.hpp"

namespace ringloop::py {

namespace detail {

// The wait for one asyncio future. Shared by the frame that waits, the callback that Python holds
// and a cancel on its way: whichever goes last frees it.
struct future_wait : posted, std::enable_shared_from_this<future_wait> {
    future_wait(task_base& source_of_await, ref awaited) noexcept
        : posted(&future_wait::cancel_now), source(source_of_await), future(std::move(awaited)) {}

    task_base& source;
    ref future;
    std::coroutine_handle<> waiting;
    bool done = false;
    bool abandoned = false;  // its loop is closing: nobody would run the task to its end

    // Registers the callback. Throws error.
    void attach() {
        static PyMethodDef definition = {"future_wait", &future_wait::on_done, METH_O, nullptr};
        auto shared = std::make_unique<std::shared_ptr<future_wait>>(shared_from_this());
        const ref capsule = ref::steal(PyCapsule_New(shared.get(), capsule_name, &drop));
        if (!capsule) throw error::take();
        static_cast<void>(shared.release());
        const ref callback = ref::steal(PyCFunction_New(&definition, capsule.get()));
        const ref answer = callback ? ref::steal(PyObject_CallMethod(
                                          future.get(), "add_done_callback", "O", callback.get()))
                                    : ref();
        if (!answer) throw error::take();
    }
    // A stop may come without the GIL: the future is cancelled in the host phase.
    void cancel_later() noexcept {
        if (on_its_way_) return;
        on_its_way_ = shared_from_this();
        source.host().native().post_host(*this);
    }

  private:
    static constexpr const char* capsule_name = "ringloop.py.future_wait";

    static PyObject* on_done(PyObject* capsule, PyObject* /*future*/) {
        auto* self =
            static_cast<std::shared_ptr<future_wait>*>(PyCapsule_GetPointer(capsule, capsule_name));
        if (self == nullptr) return nullptr;
        const std::shared_ptr<future_wait> keep = *self;
        keep->done = true;
        if (keep->waiting) {
            bridge::loop_host& host = keep->source.host();
            keep->resume();
            host.submitted();
        }
        Py_RETURN_NONE;
    }
    static void drop(PyObject* capsule) {
        delete static_cast<std::shared_ptr<future_wait>*>(
            PyCapsule_GetPointer(capsule, capsule_name));
    }
    static void cancel_now(posted& node) noexcept {
        const std::shared_ptr<future_wait> self =
            std::move(static_cast<future_wait&>(node).on_its_way_);
        if (self->done) return;
        if (self->waiting && self->source.host().ended()) {  // nobody would run its callbacks
            self->abandoned = true;
            self->resume();
            return;
        }
        const ref answer = ref::steal(PyObject_CallMethod(self->future.get(), "cancel", nullptr));
        if (!answer) PyErr_WriteUnraisable(self->future.get());
    }
    // The source may be gone afterwards.
    void resume() noexcept {
        scheduler& native = source.host().native();
        const scheduler::entry inside(native);
        native.resume(std::exchange(waiting, nullptr));
    }
    std::shared_ptr<future_wait> on_its_way_;
};

// Waits until the future is done; a stop cancels it, and each cancel of the await after that.
class future_await : private stop_waiter, private python_wait {
  public:
    explicit future_await(future_wait& wait) noexcept
        : stop_waiter(&future_await::stop), python_wait(&future_await::again), wait_(wait) {}
    [[nodiscard]] bool await_ready() const noexcept { return wait_.done; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> handle) noexcept {
        wait_.waiting = handle;
        scope_ = ringloop::detail::scope_of(handle);
        wait_.source.host().native().note_wait(scope_);
        wait_.source.add(*this);
        if (scope_ == nullptr) return;
        if (scope_->stop_requested())
            wait_.cancel_later();
        else
            scope_->add(*this);
    }
    void await_resume() noexcept {
        stop_waiter::unlink();
        python_wait::unlink();
    }

  private:
    // A shielded one hears of no cancel, but its loop may end.
    static void again(python_wait& waiter) noexcept {
        const auto& self = static_cast<future_await&>(waiter);
        if (self.wait_.source.host().is_parents()) {
            self.wait_.waiting = nullptr;  // what comes of it here is nobody's
            return;
        }
        const bool stopped = self.scope_ != nullptr && self.scope_->stop_requested();
        if (stopped || self.wait_.source.host().ended()) self.wait_.cancel_later();
    }
    static void stop(stop_waiter& waiter) noexcept {
        static_cast<future_await&>(waiter).wait_.cancel_later();
    }
    future_wait& wait_;
    stop_scope* scope_ = nullptr;
};

[[nodiscard]] inline ref as_future(PyObject* object, task_base& source) {
    bridge::loop_host& host = source.host();
    const ref asyncio = ref::steal(PyImport_ImportModule("asyncio"));
    if (!asyncio) throw error::take();
    // create_task takes the context; whatever is no coroutine goes by ensure_future.
    const ref is = ref::steal(PyObject_CallMethod(asyncio.get(), "iscoroutine", "O", object));
    if (!is) throw error::take();
    ref made;
    if (is.get() == Py_True) {
        const ref function = ref::steal(PyObject_GetAttrString(host.loop(), "create_task"));
        const ref arguments = ref::steal(PyTuple_Pack(1, object));
        // A copy, as tasks have: what one sets, another beside it must not find. None: a copy of
        // where this stands.
        PyObject* const context = source.context();
        const ref own = context != nullptr ? ref::steal(PyContext_Copy(context)) : ref();
        if (context != nullptr && !own) throw error::take();
        const ref names = ref::steal(Py_BuildValue("{s:O}", "context", own ? own.get() : Py_None));
        if (function && arguments && names)
            made = ref::steal(PyObject_Call(function.get(), arguments.get(), names.get()));
    } else {
        const ref function = ref::steal(PyObject_GetAttrString(asyncio.get(), "ensure_future"));
        const ref arguments = ref::steal(PyTuple_Pack(1, object));
        const ref names = ref::steal(Py_BuildValue("{s:O}", "loop", host.loop()));
        if (function && arguments && names)
            made = ref::steal(PyObject_Call(function.get(), arguments.get(), names.get()));
    }
    if (!made) throw error::take();
    return made;
}

// Else a coroutine would warn that it was never awaited.
inline void close_unawaited(PyObject* object) noexcept {
    if (PyCoro_CheckExact(object) == 0) return;
    const ref answer = ref::steal(PyObject_CallMethod(object, "close", nullptr));
    if (!answer) PyErr_WriteUnraisable(object);
}

[[nodiscard]] inline task_base& needed(task_base* source) {
    if (source == nullptr)
        throw std::logic_error("ringloop::py::await(): no Python await leads to this coroutine");
    return *source;
}

// The result of a future that is done, or what it raised.
[[nodiscard]] inline ref outcome_of(PyObject* future) {
    ref value = ref::steal(PyObject_CallMethod(future, "result", nullptr));
    if (value) return value;
    error raised = error::take();
    if (raised.matches(runtime().cancelled_error())) throw operation_cancelled();
    throw raised;
}

}  // namespace detail

[[nodiscard]] inline task<ref> await(ref object) {
    const stop_scope* const scope = co_await current_scope();
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
    co_await hold_gil();
    detail::task_base& source = detail::needed(co_await detail::find_source());
    if (source.host().ended()) {  // behind a shield: nobody would run it
        detail::close_unawaited(object.get());
        throw operation_cancelled();
    }
    const auto wait =
        std::make_shared<detail::future_wait>(source, detail::as_future(object.get(), source));
    wait->attach();
    co_await detail::future_await(*wait);
    if (wait->abandoned) throw operation_cancelled();
    co_return detail::outcome_of(wait->future.get());
}

}  // namespace ringloop::py
