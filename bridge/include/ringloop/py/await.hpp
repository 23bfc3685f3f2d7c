// co_await py::await<T>(object): a Python awaitable (coroutine, future, task, anything with
// __await__) awaited by native code. Gives what it returned, converted as value.hpp says, or as
// py::ref. iterate<T>(object) is the same for asynchronous generators and iterators.
//
//     auto body = co_await py::await<std::string>(http.call("get", url));
//     auto lines = py::iterate<std::string>(file);
//     for (auto line = co_await lines.next(); line; line = co_await lines.next()) …
//
// Where it runs: as a task of the loop whose await, or py::run(), leads to this coroutine, in a
// copy of the context of that await. A coroutine that is on another scheduler (of another thread)
// gets the answer there. A coroutine that nothing of Python's leads to names the loop:
// await(object, loop). `context` (a contextvars.Context) takes the place of the copy; for
// coroutines only.
//
// on(loop, task) runs a native coroutine on a loop's thread from any scheduler, and gives its
// outcome here. Such a coroutine may hold_gil() and await().
//
// Cancel: a stop request cancels the Python task, and the coroutine goes on when Python has
// confirmed: operation_cancelled, or what the task ended with all the same; each further cancel of
// the outer await cancels it again, as it may have refused the first. A task that Python cancels:
// operation_cancelled. Where the loop is closed meanwhile: operation_cancelled, without
// the task's end. Errors: what it raises is thrown as py::error, or as the native exception that
// it stands for (error.hpp).
//
// Thread: that of any running scheduler. On the loop's own the coroutine goes on with the GIL,
// until its next wait; elsewhere without.
#pragma once

#include <Python.h>

#include <coroutine>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "ringloop/detail/away.hpp"
#include "ringloop/detail/remote_stop.hpp"
#include "ringloop/error.hpp"
#include "ringloop/generator.hpp"
#include "ringloop/on.hpp"
#include "ringloop/py/context.hpp"
#include "ringloop/py/loop.hpp"
#include "ringloop/py/object.hpp"
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

// asyncio's functions that an await needs, for the process. GIL. Throws error.
struct asyncio_functions {
    PyObject* ensure_future;
    PyObject* coroutine_type;  // collections.abc.Coroutine
    PyObject* create_task;     // the name
    PyObject* context_names;   // ("context",)

    [[nodiscard]] static const asyncio_functions& get() {
        static const asyncio_functions found;
        return found;
    }

  private:
    asyncio_functions() {
        const ref asyncio = made(PyImport_ImportModule("asyncio"));
        const ref abc = made(PyImport_ImportModule("collections.abc"));
        ref ensure = made(PyObject_GetAttrString(asyncio.get(), "ensure_future"));
        ref type = made(PyObject_GetAttrString(abc.get(), "Coroutine"));
        ref create = made(PyUnicode_InternFromString("create_task"));
        ref by_context = made(Py_BuildValue("(s)", "context"));
        ensure_future = ensure.release();
        coroutine_type = type.release();
        create_task = create.release();
        context_names = by_context.release();
    }
};

// create_task takes the context; whatever is no coroutine goes by ensure_future.
[[nodiscard]] inline ref as_future(PyObject* object, PyObject* context, task_base& source) {
    const asyncio_functions& asyncio = asyncio_functions::get();
    PyObject* const loop = source.host().loop();
    const int is_coroutine =
        PyCoro_CheckExact(object) ? 1 : PyObject_IsInstance(object, asyncio.coroutine_type);
    if (is_coroutine < 0) throw error::take();
    ref own;  // a copy, as tasks have: what one sets, another beside it must not find
    if (context == nullptr && source.context() != nullptr) {
        own = made(PyContext_Copy(source.context()));
        context = own.get();
    }
    if (is_coroutine == 0) {
        const ref arguments = made(PyTuple_Pack(1, object));
        const ref names = made(Py_BuildValue("{s:O}", "loop", loop));
        return call_in(context, asyncio.ensure_future, arguments.get(), names.get());
    }
    // None: a copy of where this stands.
    PyObject* const arguments[] = {loop, object, context != nullptr ? context : Py_None};
    return made(run_python(&PyObject_VectorcallMethod, asyncio.create_task,
                           static_cast<PyObject* const*>(arguments), std::size_t{2},
                           asyncio.context_names));
}

[[nodiscard]] inline task_base& needed(task_base* source) {
    if (source == nullptr)
        throw std::logic_error(
            "ringloop::py::await(): no Python await, and no py::run(), leads to this coroutine: "
            "name the loop, await(object, loop)");
    return *source;
}

// The result of a future that is done, or what it raised.
[[nodiscard]] inline ref outcome_of(PyObject* future) {
    ref value = ref::steal(PyObject_CallMethod(future, "result", nullptr));
    if (value) return value;
    if (PyErr_ExceptionMatches(runtime().cancelled_error()) != 0) {
        PyErr_Clear();
        throw operation_cancelled();
    }
    throw_raised_exception();
}

// What is to be awaited. A coroutine that is dropped before its task was made is closed: that
// nobody awaits it was decided here, and deserves no warning.
class unawaited {
  public:
    explicit unawaited(ref object) noexcept : object_(std::move(object)) {}
    unawaited(unawaited&&) noexcept = default;
    unawaited& operator=(unawaited&&) = delete;
    ~unawaited() {
        if (!object_) return;
        try {
            const gil_scope gil;
            if (is_unstarted())
                static_cast<void>(ref::steal(PyObject_CallMethod(object_.get(), "close", nullptr)));
            PyErr_Clear();
            object_ = ref();
        } catch (const std::exception&) {
            // The interpreter has ended, or this is a subinterpreter: nobody closes it any more. It
            // is left behind, since its end would tell that it was never awaited.
            static_cast<void>(object_.release());
        }
    }
    [[nodiscard]] ref take() noexcept { return std::move(object_); }

  private:
    [[nodiscard]] bool is_unstarted() const noexcept {
        if (!PyCoro_CheckExact(object_.get())) return false;
        for (const char* in_use : {"cr_running", "cr_suspended"}) {
            const ref answer = ref::steal(PyObject_GetAttrString(object_.get(), in_use));
            if (answer.get() != Py_False) return false;
        }
        return true;
    }
    ref object_;
};

inline void check_stop(const stop_scope* scope) {
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
}

// On the loop's thread.
template <class T>
task<T> await_here(unawaited awaited, ref context) {
    check_stop(co_await current_scope());
    co_await hold_gil();
    task_base& source = needed(co_await find_source());
    if (source.host().ended()) throw operation_cancelled();  // behind a shield: nobody would run it
    const ref object = awaited.take();
    const auto wait =
        std::make_shared<future_wait>(source, as_future(object.get(), context.get(), source));
    wait->attach();
    co_await future_await(*wait);
    if (wait->abandoned) throw operation_cancelled();
    if constexpr (std::is_void_v<T>)
        static_cast<void>(outcome_of(wait->future.get()));
    else
        co_return from_python<T>(outcome_of(wait->future.get()).get());
}

// The work of an await of another scheduler's: an awaitable on the loop, so that the loop's end
// ends it as well. Its owner is told by its own end, when the task's frame is gone.
struct tells_end {
    explicit tells_end(ringloop::detail::crossing::listener& listener) noexcept : ended(listener) {}
    ~tells_end() { ended.call(ended); }
    tells_end(const tells_end&) = delete;
    tells_end& operator=(const tells_end&) = delete;
    ringloop::detail::crossing::listener& ended;
};
template <class T>
class visiting_source final : private tells_end, public task_base {
  public:
    visiting_source(const export_info& about, ringloop::detail::crossing::listener& ended,
                    task<T> work, std::stop_token token, ringloop::result<T>& outcome) noexcept
        : tells_end(ended),
          task_base(about),
          work_(std::move(work)),
          token_(std::move(token)),
          outcome_(outcome) {}

    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override {
        std::coroutine_handle<root::promise_type> coroutine;
        try {
            if (token_.stop_possible()) link_.emplace(token_, scope(), host.native());
            coroutine = run(*this).handle;
        } catch (...) {  // no memory
            outcome_.set_error(std::current_exception());
            settled_ = true;
            runtime().finish(owner);
            return;
        }
        settled_ = true;
        begin(host, owner, coroutine);
    }
    PyObject* result() noexcept override { return Py_NewRef(Py_None); }
    ~visiting_source() override {  // it never began where the loop is closing
        if (!settled_) outcome_.set_error(std::make_exception_ptr(operation_cancelled()));
    }

  private:
    static root run(visiting_source& self) {
        try {
            task<T> mine = std::move(self.work_);
            check_stop(&self.scope());
            if constexpr (std::is_void_v<T>)
                co_await std::move(mine).in(self.scope());
            else
                self.outcome_.set_value(co_await std::move(mine).in(self.scope()));
        } catch (...) {
            self.outcome_.set_error(std::current_exception());
        }
        self.link_.reset();
    }
    task<T> work_;
    std::stop_token token_;
    ringloop::result<T>& outcome_;
    std::optional<ringloop::detail::remote_stop> link_;
    bool settled_ = false;
};

inline const export_info& visitors() noexcept {
    static const export_info about{"native coroutine"};
    return about;
}

template <class T>
class visit_await : private ringloop::detail::crossing::listener, private ringloop::detail::away {
  public:
    visit_await(loop there, task<T> work)
        : listener(&visit_await::on_end), there_(std::move(there)), work_(std::move(work)) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        stop_scope* const scope = ringloop::detail::scope_of(handle);
        check_stop(scope);
        if (scope != nullptr) token_ = scope->token();
        leave(handle, [this] {
            if (!there_.post(&visit_await::arrive, this)) throw operation_cancelled();
        });
        return true;
    }
    T await_resume() { return outcome_.take(); }

  private:
    // On the loop's thread, with the GIL. Its last touch of *this is the source's end, or on_end().
    static void arrive(void* context) noexcept {
        auto& self = *static_cast<visit_await*>(context);
        auto* work = new (std::nothrow)
            visiting_source<T>(visitors(), self, std::move(self.work_), self.token_, self.outcome_);
        if (work == nullptr) {
            self.outcome_.set_error(std::make_exception_ptr(std::bad_alloc()));
            on_end(self);
            return;
        }
        static PyMethodDef nothing = {
            "ended", [](PyObject*, PyObject*) { return Py_NewRef(Py_None); }, METH_O, nullptr};
        const ref awaitable = ref::steal(runtime().new_awaitable(work));
        const ref callback = awaitable ? ref::steal(PyCFunction_New(&nothing, nullptr)) : ref();
        const ref answer = callback
                               ? ref::steal(PyObject_CallMethod(
                                     awaitable.get(), "add_done_callback", "O", callback.get()))
                               : ref();
        if (answer) return;
        PyErr_Clear();
        // No loop runs any more: it ends unstarted.
        if (awaitable)
            static_cast<void>(ref::steal(PyObject_CallMethod(awaitable.get(), "cancel", nullptr)));
        PyErr_Clear();
    }
    static void on_end(listener& self) noexcept { static_cast<visit_await&>(self).come_back(); }

    loop there_;
    task<T> work_;
    std::stop_token token_;
    result<T> outcome_;
};

// Where this coroutine stands: on the thread of its await's loop (null: elsewhere).
[[nodiscard]] inline bool is_home(task_base* source) noexcept {
    return source != nullptr && scheduler::current() == &source->host().native();
}

template <class T>
task<T> await_from_anywhere(unawaited awaited, loop where, ref context) {
    check_stop(co_await current_scope());
    task_base* const source = co_await find_source();
    const bool named = static_cast<bool>(where);
    if (named && !(is_home(source) && where.is(source->host()))) {
        co_return co_await visit_await<T>(std::move(where),
                                          await_here<T>(std::move(awaited), std::move(context)));
    }
    if (is_home(&needed(source)))
        co_return co_await await_here<T>(std::move(awaited), std::move(context));
    co_return co_await ringloop::on(source->host().native(),
                                    await_here<T>(std::move(awaited), std::move(context)));
}

template <class T>
generator<T> iterate_from_anywhere(ref iterable, loop where) {
    const object all{std::move(iterable)};
    const object iterator = all.call("__aiter__");
    while (true) {
        std::optional<T> value;
        try {
            value = co_await await_from_anywhere<T>(unawaited(iterator.call("__anext__").release()),
                                                    where, ref());
        } catch (const error& raised) {
            const gil_scope gil;
            if (!raised.matches(PyExc_StopAsyncIteration)) throw;
        }
        if (!value) co_return;
        co_yield std::move(*value);
    }
}

}  // namespace detail

template <class T = ref>
[[nodiscard]] task<T> await(ref awaitable, loop where = {}, object context = {}) {
    return detail::await_from_anywhere<T>(detail::unawaited(std::move(awaitable)), std::move(where),
                                          context.release());
}
template <class T = ref>
[[nodiscard]] task<T> await(object awaitable, loop where = {}, object context = {}) {
    return detail::await_from_anywhere<T>(detail::unawaited(awaitable.release()), std::move(where),
                                          context.release());
}

// One step at a time. A generator that is dropped half-way drops Python's, whose clean-up the loop
// runs then, as for `async for` with a break.
template <class T = ref>
[[nodiscard]] generator<T> iterate(object iterable, loop where = {}) {
    return detail::iterate_from_anywhere<T>(iterable.release(), std::move(where));
}

template <class T>
[[nodiscard]] detail::visit_await<T> on(loop there, task<T> work) {
    return {std::move(there), std::move(work)};
}

}  // namespace ringloop::py
