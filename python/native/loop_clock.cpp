// The clock that a loop's timers go by: the driver's, a virtual one for tests, or what a program
// put in the place of time() (a subclass's method, an attribute of the loop).
//
// Where time() is the program's, it is asked as asyncio asks it: for "now" of call_later(), before
// each sleep, whose length is what the first timer is ahead of it, and for what is due.
//
// A virtual clock is a Python object with time() and advance(seconds). When nothing is ready:
//  - while work is in flight that ends by itself (a call in an executor, a kernel, a file), the
//    loop sleeps until it has, and the clock stands still;
//  - while other operations are in flight (sockets, pipes, watches), the loop gives the kernel
//    `settle` real seconds to complete one of them;
//  - then the clock jumps to the first deadline.
// Without timers, or with endless ones only, it sleeps as any loop.
//
// Thread: the loop's, GIL held. Native timers (coroutines of the runtime) stay on the driver's
// clock.
#include <cmath>

#include "loop_object.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

// For Python code's answers. False with an exception set.
bool to_seconds(const ref& value, double& seconds) noexcept {
    if (!value) return false;
    seconds = PyFloat_AsDouble(value.get());
    return seconds != -1.0 || PyErr_Occurred() == nullptr;
}

// The loop's own watch of its signals' pipe (_signals.py) is nothing that a test waits for. False
// with an exception set.
bool operations_of_users(loop_object* loop, std::size_t& count) noexcept {
    count = io_of(loop).in_flight();
    const ref pipe =
        ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(loop), "_signal_pipe"));
    if (!pipe) return false;
    if (pipe.get() != Py_None && count > 0) --count;
    return true;
}

// asyncio's longest sleep: a time() that is the program's may jump meanwhile.
constexpr std::int64_t sleep_max_ns = 24 * 3600 * std::int64_t{1'000'000'000};

bool ends_by_itself(loop_object* loop) noexcept {
    return loop->busy_elsewhere > 0 || loop->state.host->files_in_flight > 0 ||
           loop->state.host->jobs_in_flight > 0;
}

}  // namespace

std::int64_t deadline_of(double when) noexcept {
    constexpr double most = 9.2e18;
    if (std::isnan(when)) return INT64_MIN;  // due at once, as in asyncio
    const double ns = when * 1e9;
    if (!(ns < most)) return no_deadline;
    if (ns < -most) return -static_cast<std::int64_t>(most);
    auto deadline_ns = static_cast<std::int64_t>(std::ceil(ns));
    while (static_cast<double>(deadline_ns) / 1e9 < when) ++deadline_ns;
    return deadline_ns;
}

bool loop_clock_seconds(loop_object* loop, double& now) noexcept {
    if (!loop->state.clock) {
        now = static_cast<double>(native_of(loop).now_ns()) / 1e9;
        return true;
    }
    const ref clock = ref::share(loop->state.clock.get());
    return to_seconds(ref::steal(PyObject_CallMethod(clock.get(), "time", nullptr)), now);
}

bool loop_now_seconds(loop_object* loop, double& now) noexcept {
    if (!loop->state.custom_time) return loop_clock_seconds(loop, now);
    auto* self = reinterpret_cast<PyObject*>(loop);
    return to_seconds(ref::steal(PyObject_CallMethod(self, "time", nullptr)), now);
}

bool loop_now_ns(loop_object* loop, std::int64_t& now_ns) noexcept {
    if (!loop->state.clock && !loop->state.custom_time) {
        now_ns = native_of(loop).now_ns();
        return true;
    }
    double now = 0;
    if (!loop_now_seconds(loop, now)) return false;
    now_ns = deadline_of(now);
    if (now_ns < loop->state.reached_ns) now_ns = loop->state.reached_ns;
    return true;
}

bool loop_first_deadline_ns(loop_object* loop, std::int64_t& deadline_ns) noexcept {
    loop_state& state = loop->state;
    deadline_ns = no_deadline;
    if (state.timers.empty()) return true;
    if (!state.custom_time) {
        deadline_ns = state.timers.first_deadline_ns();
        return true;
    }
    std::int64_t now_ns = 0;
    if (!loop_now_ns(loop, now_ns)) return false;
    if (state.timers.empty()) return true;  // time() has cancelled them
    const std::int64_t first_ns = state.timers.first_deadline_ns();
    if (first_ns == no_deadline) return true;
    std::int64_t left_ns = 0;
    const std::int64_t real_ns = native_of(loop).now_ns();
    if (!__builtin_sub_overflow(first_ns, now_ns, &left_ns) && left_ns < sleep_max_ns)
        deadline_ns = real_ns + (left_ns > 0 ? left_ns : 0);
    else
        deadline_ns = first_ns > now_ns ? real_ns + sleep_max_ns : real_ns;
    return true;
}

int loop_set_clock(loop_object* loop, PyObject* clock) noexcept {
    constexpr double settle_seconds = 0.01;  // for clocks that do not say
    const ref wish = ref::steal(PyObject_GetAttrString(clock, "settle"));
    if (!wish) {
        if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
        PyErr_Clear();
    }
    const double settle = wish ? PyFloat_AsDouble(wish.get()) : settle_seconds;
    if (settle == -1.0 && PyErr_Occurred() != nullptr) return -1;
    loop->state.settle_ns = settle > 0 ? deadline_of(settle) : 0;
    loop->state.clock = ref::share(clock);
    return 0;
}

idle idle_on_virtual_clock(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    if (state.timers.empty() || ends_by_itself(loop)) return idle::sleep;
    const std::int64_t deadline_ns = state.timers.first_deadline_ns();
    std::int64_t now_ns = 0;
    if (!loop_now_ns(loop, now_ns)) return idle::failed;
    if (deadline_ns <= now_ns) return idle::due;
    if (deadline_ns == no_deadline) return idle::sleep;
    std::size_t waiting = 0;
    if (!operations_of_users(loop, waiting)) return idle::failed;
    if (waiting > 0) return idle::settle;
    return loop_jump(loop) < 0 ? idle::failed : idle::due;
}

int loop_jump(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    std::int64_t now_ns = 0;
    if (state.timers.empty() || !loop_now_ns(loop, now_ns)) return state.timers.empty() ? 0 : -1;
    const std::int64_t deadline_ns = state.timers.first_deadline_ns();
    if (deadline_ns <= now_ns || deadline_ns == no_deadline) return 0;
    const double seconds = static_cast<double>(deadline_ns - now_ns) / 1e9;
    const ref clock = ref::share(state.clock.get());
    const ref done = ref::steal(PyObject_CallMethod(clock.get(), "advance", "d", seconds));
    if (!done) return -1;
    state.reached_ns = deadline_ns;  // whatever its floating point made of it
    return 0;
}

}  // namespace ringloop::python
