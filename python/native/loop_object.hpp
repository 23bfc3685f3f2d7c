// loop_object: the layout of LoopCore, for the files that implement it (loop*.cpp, handle.cpp,
// watch.cpp). Everybody else uses loop.hpp.
#pragma once

#include <Python.h>
#include <structmember.h>

#include <memory>
#include <vector>

#include "handle.hpp"
#include "loop.hpp"
#include "ready_queue.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/detail/spin_policy.hpp"
#include "stall_watch.hpp"
#include "timer_heap.hpp"
#include "turn_limit.hpp"
#include "turn_traffic.hpp"
#include "watch.hpp"

namespace ringloop::python {

class own_host final : public bridge::loop_host {
  public:
    own_host(loop_object* loop, scheduler* native) noexcept
        : loop_host(reinterpret_cast<PyObject*>(loop), native) {}
    int call_soon(PyObject* callback, PyObject* argument, PyObject* context) noexcept override {
        return loop_call_soon(reinterpret_cast<loop_object*>(loop_), callback, argument, context);
    }
};

struct loop_state {
    std::unique_ptr<scheduler> native;
    std::unique_ptr<own_host> host;
    ready_queue ready;
    timer_heap timers;
    watch_table watches;
    turn_end_hook* hooks_first = nullptr;
    turn_end_hook* hooks_last = nullptr;
    bridge::ref fatal;                  // raised from run_forever() after the current step
    std::vector<PyObject*> transports;  // by descriptor, borrowed
    ringloop::detail::spin_policy spin;
    turn_limit limit;
    turn_traffic traffic;
    stall_watch stalls;
    bool custom_time = false;    // time() is not ours: a subclass's, or the program set it
    bridge::ref clock;           // a virtual clock that moves the timers; null: the driver's
    std::int64_t settle_ns = 0;  // see loop_clock.cpp
    std::int64_t reached_ns = INT64_MIN;  // the clock was moved to here
    unsigned long last_thread = 0;        // where operations in flight were submitted
    bool initialised = false;             // _configure() has succeeded
    bool running = false;
    bool forked = false;  // this is a child's copy of its parent's loop
    // There only: callbacks of futures that have ended since the fork (loop_run.cpp).
    std::vector<handle_object*> endings;
    loop_object* previous = nullptr;  // all configured loops of the process
    loop_object* next = nullptr;
};

// What PyMemberDef names by offset, which is defined for a struct as plain as this only.
struct loop_members {
    PyObject_HEAD
        // Members that BaseEventLoop's Python code reads and writes.
        char closed;  // also before EventLoop.__init__() has run
    char stopping;
    char debug;
    PyObject* task_factory;
    Py_ssize_t busy_elsewhere;  // with a virtual clock: calls in executors, which end by themselves
};

struct loop_object : loop_members {
    loop_state state;
};

// A C function as PyType_Slot wants it.
template <typename Function>
[[nodiscard]] void* slot(Function* function) noexcept {
    return reinterpret_cast<void*>(function);
}

// Debug mode: thread and callback checks; 0 or -1.
int check_debug(loop_object* loop, PyObject* callback, const char* method, bool thread) noexcept;
int loop_set_traceback(handle_object* handle) noexcept;
// loop._run_handle_debug(handle): times it, keeps _current_handle. 0 or -1.
int loop_run_debug(loop_object* loop, handle_object* handle) noexcept;
int handle_run_plain(handle_object* handle) noexcept;
// Runs a handle that stays: add_reader's. 0, or -1 with an exception set that must end the run.
int handle_run_again(handle_object* handle) noexcept;
void loop_forget_timer(loop_object* loop, handle_object* handle) noexcept;
// Runs the queued hooks. Also called when a run ends, so that accepted writes leave.
void run_turn_end_hooks(loop_object* loop) noexcept;
// call_soon() of a closed loop: a handle in `endings`, or null with RuntimeError set.
[[nodiscard]] PyObject* loop_soon_when_closed(loop_object* loop, PyObject* callback,
                                              PyObject* const* arguments, Py_ssize_t count,
                                              PyObject* context) noexcept;
// Ends everything that the loop has in flight, and its driver. Safe to call twice.
void loop_tear_down(loop_object* loop) noexcept;
// Of all that are configured and not torn down; the others follow by state.next.
[[nodiscard]] loop_object* first_of_loops() noexcept;
// Drops ready handles, timers, hooks.
void loop_clear_queues(loop_object* loop) noexcept;

// ---- loop_clock.cpp: the clock that timers go by
// The first nanosecond at which loop.time() >= when.
[[nodiscard]] std::int64_t deadline_of(double when) noexcept;
// The driver's clock or the virtual one: what our own time() says. Here and below, false with an
// exception set (what is not the driver's clock is Python code).
[[nodiscard]] bool loop_clock_seconds(loop_object* loop, double& now) noexcept;
// What loop.time() says, whoever wrote it; in whole nanoseconds, for timers.
[[nodiscard]] bool loop_now_seconds(loop_object* loop, double& now) noexcept;
[[nodiscard]] bool loop_now_ns(loop_object* loop, std::int64_t& now_ns) noexcept;
// Until when, on the driver's clock, to sleep for the first timer; no_deadline: there is none. Not
// for virtual clocks.
[[nodiscard]] bool loop_first_deadline_ns(loop_object* loop, std::int64_t& deadline_ns) noexcept;
// Looks whether time() is ours, for custom_time.
void loop_look_at_time(loop_object* loop) noexcept;
int loop_set_clock(loop_object* loop, PyObject* clock) noexcept;
// What to do with a virtual clock when there is nothing to run: see loop_clock.cpp.
enum class idle : std::uint8_t { sleep, settle, due, failed };
[[nodiscard]] idle idle_on_virtual_clock(loop_object* loop) noexcept;
// Moves the clock to the first deadline. 0, or -1 with an exception set.
int loop_jump(loop_object* loop) noexcept;

// ---- loop_collector.cpp
int loop_traverse(PyObject* self, visitproc visit, void* arg) noexcept;
int loop_clear(PyObject* self) noexcept;

PyObject* loop_run(PyObject* self, PyObject*);
extern PyMethodDef loop_call_methods[];   // loop_calls.cpp
extern PyMethodDef loop_task_methods[];   // loop_tasks.cpp
extern PyMethodDef loop_watch_methods[];  // watch.cpp

}  // namespace ringloop::python
