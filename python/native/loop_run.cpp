// The turn. Contract in loop.hpp; order as in asyncio: handles that were ready before the poll,
// then I/O, then timers that were due right after the poll; what these schedule waits for the next
// turn. While callbacks are slow a turn takes less I/O (turn_limit.hpp). Of a flood of handles it
// takes a part, and then I/O and timers have their turn before the rest.
//
// A child that was forked inside a turn takes nothing up any more: not the rest of the turn, which
// is its parent's, no I/O, no timer. Its program may end there, as one under asyncio would:
// callbacks of futures that have ended since the fork still run, so that who waits for them hears
// of it and the run ends with what its future says. What else they lead to raises RuntimeError.
//
// GIL: held, except inside wait_without_gil(). Leaves with everything submitted that the run
// accepted.
#include <new>
#include <vector>

#include "loop_object.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "transport.hpp"
#include "transport_queue.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

// More handles than this are a flood, as threads can make that post faster than the loop runs.
constexpr std::size_t handles_max = 16'384;

bool has_ready(void* context) noexcept {
    return !static_cast<loop_object*>(context)->state.ready.empty();
}

// The loop's time since the last note went to that.
void note_spent(loop_object* loop, stall_watch::part what) noexcept {
    if (stall_watch& stalls = loop->state.stalls; stalls.on()) [[unlikely]]
        stalls.mark(what, native_of(loop).now_ns());
}

// The loop looks at its I/O again. 0, or -1 with an exception set.
int end_span(loop_object* loop) noexcept {
    stall_watch& stalls = loop->state.stalls;
    stall_watch::shares spent{};
    if (!stalls.on() || !stalls.end(native_of(loop).now_ns(), spent)) return 0;
    const ref seconds = ref::steal(PyTuple_New(stall_watch::parts));
    if (!seconds) return -1;
    for (std::size_t i = 0; i < stall_watch::parts; ++i) {
        PyObject* const share = PyFloat_FromDouble(static_cast<double>(spent[i]) / 1e9);
        if (share == nullptr) return -1;
        PyTuple_SET_ITEM(seconds.get(), static_cast<Py_ssize_t>(i), share);
    }
    auto* const self = reinterpret_cast<PyObject*>(loop);
    return ref::steal(PyObject_CallMethod(self, "_report_stall", "O", seconds.get())) ? 0 : -1;
}

// Not noexcept, nor is any caller: when the interpreter ends, CPython before 3.14 ends a daemon
// thread that comes back for the GIL by unwinding its stack from here.
wait_result wait_without_gil(loop_object* loop, std::int64_t deadline_ns) {
    scheduler& native = native_of(loop);
    ringloop::detail::spin_policy& spin = loop->state.spin;
    wait_result result;
    Py_BEGIN_ALLOW_THREADS;
    const std::int64_t begin_ns = native.now_ns();
    result = native.wait(deadline_ns, spin.budget_ns(), &has_ready, loop);
    std::int64_t end_ns = native.now_ns();
    spin.slept(end_ns - begin_ns);
    if (spin.budget_ns() != 0 && has_ready(loop)) {
        const std::int64_t until_ns = end_ns + ringloop::detail::spin_policy::grace_ns;
        while (end_ns < until_ns) end_ns = native.now_ns();
    }
    stall_watch& stalls = loop->state.stalls;
    if (stalls.on()) stalls.begin(end_ns);
    native.run_native();
    note_spent(loop, stall_watch::native_code);
    Py_END_ALLOW_THREADS;
    note_spent(loop, stall_watch::gil);
    return result;
}

bool has_work(loop_object* loop) noexcept {
    return !loop->state.ready.empty() || loop->stopping || native_of(loop).has_native_work() ||
           native_of(loop).has_host_work();
}

// poll_or_wait() on a virtual clock: loop_clock.cpp says when it jumps.
int wait_virtually(loop_object* loop) {
    scheduler& native = native_of(loop);
    native.poll();
    native.run_native();
    if (has_work(loop)) return 0;
    const idle what = idle_on_virtual_clock(loop);
    if (what == idle::failed) return -1;
    if (what == idle::due) return 0;
    const std::int64_t deadline_ns =
        what == idle::sleep ? no_deadline : native.now_ns() + loop->state.settle_ns;
    const wait_result result = wait_without_gil(loop, deadline_ns);
    if (result == wait_result::timed_out && what == idle::settle && !has_work(loop))
        return loop_jump(loop);
    return 0;
}

// Submits, and waits if there is nothing else to do. 0, or -1 with an exception set.
int poll_or_wait(loop_object* loop) {
    loop_state& state = loop->state;
    scheduler& native = native_of(loop);
    if (has_work(loop)) {
        native.poll();
        if (state.stalls.on()) state.stalls.begin(native.now_ns());
        if (native.has_native_work() || native.next_deadline_ns() != no_deadline)
            native.run_native();
        note_spent(loop, stall_watch::native_code);
        return 0;
    }
    if (state.clock) return wait_virtually(loop);
    std::int64_t deadline_ns = 0;
    if (!loop_first_deadline_ns(loop, deadline_ns)) return -1;
    wait_without_gil(loop, deadline_ns);
    return 0;
}

// Moves the timers that are due to the end of the ready queue.
int collect_due(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    if (state.timers.empty()) return 0;
    std::int64_t now_ns = 0;
    if (!loop_now_ns(loop, now_ns)) return -1;
    while (!state.timers.empty() && state.timers.first_deadline_ns() <= now_ns) {
        handle_object* handle = state.timers.pop();
        if (state.ready.push(handle)) continue;
        Py_DECREF(handle);
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

// Results of a turn's parts; < 0: an exception is set.
constexpr int go_on = 0;
constexpr int run_has_ended = 1;  // in a forked child

bool is_done_future(PyObject* object) noexcept {
    ref is_future = ref::steal(PyObject_GetAttrString(object, "_asyncio_future_blocking"));
    ref done = is_future ? ref::steal(PyObject_CallMethod(object, "done", nullptr)) : ref();
    const bool result = done.get() == Py_True;
    PyErr_Clear();
    return result;
}

// What a forked child still does after the handle, or the completion, that forked.
int end_in_child(loop_object* loop) noexcept {
    std::vector<handle_object*>& endings = loop->state.endings;
    if (!endings.empty()) {
        auto* self = reinterpret_cast<PyObject*>(loop);
        if (!ref::steal(PyObject_CallMethod(self, "_step_in_child", nullptr))) return -1;
    }
    while (!loop->stopping && !endings.empty()) {
        std::vector<handle_object*> now;
        now.swap(endings);
        int result = 0;
        for (handle_object* handle : now) {
            if (result == 0) result = handle_run(handle);
            Py_DECREF(handle);
        }
        if (result < 0) return -1;
    }
    return loop->stopping ? run_has_ended : raise_closed(loop);
}

// The run of a forked child is over: what has ended there since counts as heard of. (asyncio's loop
// goes on under its clean-up, and tells.)
void forget_endings(loop_object* loop) noexcept {
    ref exception = PyErr_Occurred() != nullptr ? bridge::take_exception() : ref();
    std::vector<handle_object*> endings;
    endings.swap(loop->state.endings);
    for (handle_object* handle : endings) {
        if (handle->count == 1) {
            ref retrieved = ref::steal(PyObject_CallMethod(handle->slots[1], "exception", nullptr));
            if (!retrieved) PyErr_Clear();  // it was cancelled
        }
        handle_drop(handle);
        Py_DECREF(handle);
    }
    if (exception) bridge::restore_exception(std::move(exception));
}

int run_handle(loop_object* loop, handle_object* handle) noexcept {
    const int result = handle_run(handle);
    Py_DECREF(handle);
    if (result < 0) return -1;
    return loop->state.forked ? end_in_child(loop) : go_on;
}

int run_ready(loop_object* loop, std::size_t count) noexcept {
    for (; count > 0; --count)
        if (const int result = run_handle(loop, loop->state.ready.pop()); result != go_on)
            return result;
    return go_on;
}

// Timers that are due, past the handles that wait: at most as many as there are, for one may arm
// itself anew.
int run_timers(loop_object* loop) noexcept {
    timer_heap& timers = loop->state.timers;
    std::int64_t now_ns = 0;
    if (!loop_now_ns(loop, now_ns)) return -1;
    for (std::size_t left = timers.size(); left > 0 && !timers.empty(); --left) {
        if (timers.first_deadline_ns() > now_ns) break;
        if (const int result = run_handle(loop, timers.pop()); result != go_on) return result;
    }
    return go_on;
}

// The program may end with this run, as by sys.exit() in a callback, and never close its loop: what
// write() accepted in a turn leaves behind what the turn before had in flight.
void send_what_waits(loop_object* loop) noexcept {
    if (outgoing_live == 0) return;
    const std::vector<PyObject*>& transports = loop->state.transports;
    for (std::size_t i = 0; i < transports.size(); ++i)  // an exception handler may make new ones
        if (transports[i] != nullptr && is_transport(transports[i]))
            transport_send_behind(state_of(transports[i]));
}

int raise_fatal(loop_object* loop) noexcept {
    if (!loop->state.fatal) return 0;
    bridge::restore_exception(std::move(loop->state.fatal));
    return -1;
}

int turn(loop_object* loop) {
    loop_state& state = loop->state;
    run_turn_end_hooks(loop);
    if (end_span(loop) < 0) return -1;
    state.traffic.begin_turn();
    // A signal's handler that raises ends the run, as out of asyncio's select(); asked every time,
    // for whatever else may have ended the wait together with the signal.
    if (poll_or_wait(loop) < 0 || PyErr_CheckSignals() < 0) return -1;
    if (state.forked) return end_in_child(loop);  // by a signal's handler
    scheduler& native = native_of(loop);
    // A turn without I/O has nothing to limit: it reads no clock.
    const bool has_io = native.has_host_work();
    const std::int64_t begin_ns = has_io ? native.now_ns() : 0;
    const std::size_t waiting = state.ready.size();
    const bool flooded = waiting > handles_max && !state.clock;
    const std::size_t first = flooded ? handles_max : waiting;
    if (!flooded && collect_due(loop) < 0) return -1;
    const std::size_t late = flooded ? 0 : state.ready.size() - first;
    if (const int result = run_ready(loop, first); result != go_on) return result;
    note_spent(loop, stall_watch::callbacks);
    if (native.has_host_work()) native.run_host(state.limit.completions_max());
    note_spent(loop, stall_watch::io);
    if (raise_fatal(loop) < 0) return -1;
    if (state.forked) return end_in_child(loop);
    int result = flooded ? run_timers(loop) : run_ready(loop, late);
    // stop() ends with the turn, and so does all that was ready before it.
    if (result == go_on && flooded && loop->stopping) result = run_ready(loop, waiting - first);
    if (result != go_on) return result;
    note_spent(loop, stall_watch::callbacks);
    if (has_io) state.limit.turned(native.now_ns() - begin_ns, native.has_host_work());
    return go_on;
}

// Operations in flight belong to the thread that submitted them: they follow the loop to its new
// one.
int adopt(loop_object* loop) noexcept {
    const unsigned long thread = PyThread_get_thread_ident();
    loop_state& state = loop->state;
    if (state.last_thread != 0 && state.last_thread != thread && !io_of(loop).adopt_thread()) {
        PyErr_SetString(
            bridge::affinity_error(),
            "this loop has operations in flight (a send, a file) that were started in another "
            "thread and cannot move: let them finish there before running the loop here");
        return -1;
    }
    state.last_thread = thread;
    state.host->thread = thread;
    return 0;
}

}  // namespace

PyObject* loop_soon_when_closed(loop_object* loop, PyObject* callback, PyObject* const* arguments,
                                Py_ssize_t count, PyObject* context) noexcept {
    loop_state& state = loop->state;
    if (!state.forked || !state.running || count != 1 || !is_done_future(arguments[0]))
        return raise_closed(loop), nullptr;
    handle_object* handle = make_handle(loop, false, callback, arguments, count, context);
    if (handle == nullptr) return nullptr;
    try {
        state.endings.push_back(handle);
    } catch (const std::bad_alloc&) {
        Py_DECREF(handle);
        return PyErr_NoMemory();
    }
    return Py_NewRef(reinterpret_cast<PyObject*>(handle));
}

void run_turn_end_hooks(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    while (state.hooks_first != nullptr) {
        turn_end_hook* hook = state.hooks_first;
        state.hooks_first = hook->next;
        if (state.hooks_first == nullptr) state.hooks_last = nullptr;
        hook->next = nullptr;
        hook->queued = false;
        hook->run(*hook);
    }
}

PyObject* loop_run(PyObject* self, PyObject*) {
    auto* loop = reinterpret_cast<loop_object*>(self);
    if (loop->closed) return raise_closed(loop), nullptr;
    if (loop->state.running) {
        PyErr_SetString(PyExc_RuntimeError, "This event loop is already running");
        return nullptr;
    }
    if (adopt(loop) < 0) return nullptr;
    loop_look_at_time(loop);  // its class may have been changed since
    loop->state.running = true;
    int result = go_on;
    do result = turn(loop);
    while (result == go_on && !loop->stopping);
    loop->state.running = false;
    loop->state.stalls.set_limit(loop->state.stalls.limit_ns());  // no span goes on
    if (loop->state.forked) {
        forget_endings(loop);
    } else {
        ref exception = result < 0 ? bridge::take_exception() : ref();
        run_turn_end_hooks(loop);
        send_what_waits(loop);
        io_of(loop).flush();
        if (exception) bridge::restore_exception(std::move(exception));
    }
    if (result < 0) return nullptr;
    Py_RETURN_NONE;
}

}  // namespace ringloop::python
