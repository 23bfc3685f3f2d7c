// Handle and TimerHandle: one scheduled callback.
//
// Non-GC objects with a free list, weak references and up to three arguments inline. They pass
// isinstance for asyncio.Handle and asyncio.TimerHandle through `__class__`; real subclasses cost a
// quarter of the loop's speed. A handle is reachable by the collector through its loop's queues
// (LoopCore's traverse), and drops callback and arguments once it ran or was cancelled, so it
// cannot hold a lasting cycle. Thread: the loop's, GIL held; cancel() is safe from any thread that
// holds the GIL. From Python 3.14 on, cancel() and cancelled() of what call_soon_threadsafe()
// returned wait, without the GIL, while another thread runs the callback.
#pragma once

#include <Python.h>

#include <cstdint>

namespace ringloop::python {

struct loop_object;

inline constexpr int inline_arguments_max = 3;
inline constexpr std::uint32_t no_heap_index = UINT32_MAX;
// Those of call_soon_threadsafe(), as asyncio's are from here on.
inline constexpr bool handles_are_threadsafe = PY_VERSION_HEX >= 0x030e0000;

struct handle_object {
    PyObject_HEAD loop_object*
        loop;            // borrowed; null once it ran, was cancelled, or its loop is gone
    PyObject* callback;  // null once dropped
    PyObject* context;   // null once dropped
    // Slot 0 is scratch for callees that prepend self (PY_VECTORCALL_ARGUMENTS_OFFSET).
    PyObject* slots[1 + inline_arguments_max];
    int count;  // arguments in slots[1…]; -1: slots[1] is a tuple
    bool cancelled;
    bool is_timer;
    bool is_threadsafe;     // made by call_soon_threadsafe() of 3.14 or newer
    bool is_awaited;        // another thread waits for the callback's end
    unsigned long runner;   // the thread that runs the callback of a thread-safe one; 0: none
    PyObject* traceback;    // debug mode: where it was made
    PyObject* description;  // debug mode: repr before cancel
    PyObject* weak_references;
    // Timers only. `deadline_ns` rounds `when` up, so that a timer never fires early.
    double when;
    std::int64_t deadline_ns;
    std::uint64_t sequence;
    std::uint32_t heap_index;
};

extern PyTypeObject* handle_type;
extern PyTypeObject* timer_handle_type;

// A new handle, not queued. `context` may be null: a copy of the current one. Null with an
// exception set on failure.
[[nodiscard]] handle_object* make_handle(loop_object* loop, bool timer, PyObject* callback,
                                         PyObject* const* arguments, Py_ssize_t count,
                                         PyObject* context) noexcept;
// Calls it in its context; what it raised (SystemExit and KeyboardInterrupt excepted) goes to the
// loop's exception handler. 0, or -1 with an exception set that must end the run. A cancelled
// handle does nothing.
int handle_run(handle_object* handle) noexcept;
// Drops callback, arguments, context; the loop forgets it.
void handle_drop(handle_object* handle) noexcept;
// Visits what a queued handle holds, for the loop's traverse: also where the program has the
// handle, too. Nothing else visits it, and it ends with the loop at the latest.
int handle_traverse_contents(handle_object* handle, visitproc visit, void* argument) noexcept;

int add_handle_types(PyObject* module) noexcept;

}  // namespace ringloop::python
