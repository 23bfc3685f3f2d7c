// The life of an awaitable: start, finish, cancel, callbacks. Its Python face is
// awaitable_type.cpp. Thread: the loop's, GIL held.
#include "ringloop/bridge/python/awaitable.hpp"

#include <cassert>
#include <memory>
#include <new>
#include <utility>

#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/task_wakeup.hpp"

namespace ringloop::bridge {

long awaitables_pending = 0;

namespace {

// A cancel on its way to the loop's thread.
struct late_cancel : posted {
    explicit late_cancel(awaitable& to_end) noexcept
        : posted(&late_cancel::arrive), target(ref::share(to_end.object())) {}
    ref target;

  private:
    static void arrive(posted& node) noexcept {
        const std::unique_ptr<late_cancel> self(static_cast<late_cancel*>(&node));
        reinterpret_cast<awaitable*>(self->target.get())->cancel(nullptr);
    }
};

int refuse_thread(const char* what) noexcept {
    PyErr_Format(affinity_error(),
                 "%s of a ringloop.Awaitable whose loop runs in another thread: "
                 "loop.call_soon_threadsafe() brings the call there",
                 what);
    return -1;
}

}  // namespace

void awaitable::link(loop_host& to) noexcept {
    host = &to;
    previous = nullptr;
    next = to.pending_;
    if (next != nullptr) next->previous = this;
    to.pending_ = this;
    ++awaitables_pending;
}

void awaitable::unlink() noexcept {
    (previous != nullptr ? previous->next : host->pending_) = next;
    if (next != nullptr) next->previous = previous;
    host = nullptr;
    --awaitables_pending;
}

int awaitable::start() noexcept {
    assert(now == state::idle);
    ref running = ref::steal(running_loop());
    if (!running) return -1;
    loop_host* to = host_of(running.get());
    if (to == nullptr) return -1;
    if (to->ended()) {
        PyErr_SetString(PyExc_RuntimeError,
                        to->is_parents() ? "this event loop belongs to the parent of this process: "
                                           "a forked child needs one of its own"
                                         : "Event loop is closed");
        return -1;
    }
    loop = running.release();
    to->thread = PyThread_get_thread_ident();
    now = state::pending;
    link(*to);
    Py_INCREF(object());
    work->start(*to, *this);
    return 0;
}

void awaitable::drop_work(PyObject* value, bool delivered) noexcept {
    source* ended = std::exchange(work, nullptr);
    if (ended == nullptr) return;
    if (!delivered) ended->undelivered(value);
    delete ended;
}

void awaitable::finish() noexcept {
    assert(now == state::pending);
    const ref flight = ref::steal(object());  // the reference that it held to itself
    loop_host& on = *host;
    unlink();
    if (cancel_requested && !work->failed()) {
        now = state::cancelled;
        drop_work(nullptr, false);
    } else if (PyObject* value = work->result(); value != nullptr) {
        outcome = value;
        now = state::value;
        if (!work->takes_back) drop_work(value, true);
    } else {
        fail(take_exception());
        drop_work(nullptr, true);
    }
    run_callbacks(on);
}

// An await ends by StopIteration with a value, so it cannot pass through one, as in coroutines.
void awaitable::fail(ref exception) noexcept {
    if (!exception) {
        PyErr_Format(PyExc_SystemError, "native '%s' failed without setting an exception",
                     work->name());
        exception = take_exception();
    } else if (PyErr_GivenExceptionMatches(exception.get(), PyExc_StopIteration) != 0) {
        exception = raised_inside("coroutine raised StopIteration", std::move(exception));
    }
    const bool was_cancelled = PyErr_GivenExceptionMatches(exception.get(), cancelled_error()) != 0;
    now = was_cancelled ? state::cancelled : state::error;
    if (was_cancelled) return;
    traceback = PyException_GetTraceback(exception.get());
    outcome = exception.release();
}

void awaitable::run_callbacks(loop_host& on) noexcept {
    if (callback == nullptr) return;
    const ref first = ref::steal(std::exchange(callback, nullptr));
    const ref first_context = ref::steal(std::exchange(context, nullptr));
    const ref more = ref::steal(std::exchange(callbacks, nullptr));
    if (!on.runs_callbacks()) return;
    PyObject* const told = now == state::value ? value_for(first.get(), object()) : object();
    if (on.call_soon(first.get(), told, first_context.get()) < 0)
        PyErr_WriteUnraisable(first.get());
    const Py_ssize_t count = more ? PyList_GET_SIZE(more.get()) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* pair = PyList_GET_ITEM(more.get(), i);
        if (on.call_soon(PyTuple_GET_ITEM(pair, 0), object(), PyTuple_GET_ITEM(pair, 1)) < 0)
            PyErr_WriteUnraisable(PyTuple_GET_ITEM(pair, 0));
    }
}

int awaitable::add_callback(PyObject* function, PyObject* run_in) noexcept {
    if (now == state::idle && start() < 0) return -1;
    ref inside = run_in != nullptr ? ref::share(run_in) : ref::steal(PyContext_CopyCurrent());
    if (!inside) return -1;
    if (done()) {
        ref on = loop != nullptr ? ref::share(loop) : ref::steal(running_loop());
        if (!on) return -1;
        loop_host* to = host_of(on.get());
        if (to != nullptr && to->runs_elsewhere()) return refuse_thread("add_done_callback()");
        return to == nullptr ? -1 : to->call_soon(function, object(), inside.get());
    }
    if (check_thread("add_done_callback()") < 0) return -1;
    if (callback == nullptr) {
        callback = Py_NewRef(function);
        context = inside.release();
        return 0;
    }
    if (callbacks == nullptr && (callbacks = PyList_New(0)) == nullptr) return -1;
    const ref pair = ref::steal(PyTuple_Pack(2, function, inside.get()));
    return pair ? PyList_Append(callbacks, pair.get()) : -1;
}

bool awaitable::cancel(PyObject* why) noexcept {
    if (done()) return false;
    Py_XSETREF(message, Py_XNewRef(why));
    cancel_requested = true;
    if (now == state::idle) {
        now = state::cancelled;
        drop_work(nullptr, true);
        return true;
    }
    const ref keep = ref::share(object());
    if (work != nullptr)
        work->request_cancel();
    else
        end_in_child();
    return true;
}

// The work belongs to the parent of this process; who waits here goes on.
void awaitable::end_in_child() noexcept {
    const ref flight = ref::steal(object());
    const ref saved = take_exception();
    now = state::cancelled;
    if (loop_host* const on = loop != nullptr ? host_of(loop) : nullptr; on != nullptr)
        run_callbacks(*on);
    PyErr_Clear();  // a loop that is closed by now
    if (saved) restore_exception(ref::share(saved.get()));
}

void awaitable::leave() noexcept {
    if (shared) return;
    taken = true;
    retrieved = true;
    if (!done()) {
        if (host != nullptr && host->runs_elsewhere())
            cancel_from_elsewhere();
        else
            cancel(nullptr);
        awaited = true;
    } else if (now == state::value) {
        drop_work(outcome, false);
    }
}

void awaitable::cancel_from_elsewhere() noexcept {
    auto* node = new (std::nothrow) late_cancel(*this);
    if (node == nullptr) return;  // it runs to its end instead
    const job_home home = host->home();
    home.post(home.context, *node);
}

int awaitable::check_thread(const char* what) noexcept {
    return host != nullptr && host->runs_elsewhere() ? refuse_thread(what) : 0;
}

int awaitable::check_loop() noexcept {
    const ref running = ref::steal(running_loop());
    if (!running) return -1;
    if (loop == nullptr || running.get() == loop) return 0;
    PyErr_Format(affinity_error(),
                 "this ringloop.Awaitable was started on %R and cannot be awaited on %R: await it "
                 "there, or make one here",
                 loop, running.get());
    return -1;
}

PyObject* awaitable::take() noexcept {
    assert(done());
    switch (now) {
        case state::value:
            return Py_NewRef(outcome);
        case state::error: {
            retrieved = true;
            PyException_SetTraceback(outcome, traceback != nullptr ? traceback : Py_None);
            PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(outcome)), outcome);
            return nullptr;
        }
        default:
            if (message == nullptr) {
                PyErr_SetNone(cancelled_error());
            } else if (const ref error =
                           ref::steal(PyObject_CallOneArg(cancelled_error(), message))) {
                PyErr_SetObject(cancelled_error(), error.get());
            }
            return nullptr;
    }
}

void awaitable::collect() noexcept {
    const ref keep = ref::share(object());
    cancel_requested = true;
    collected = true;
    loop_host& on = *host;
    work->collect();
    assert(done() || !on.is_patient());
    static_cast<void>(on);
}

}  // namespace ringloop::bridge
