// LoopCore: the native half of ringloop.EventLoop. Owns the ready queue, the timers and the
// scheduler of one loop.
//
// Everything here runs on the loop's thread with the GIL held, except where said. The GIL is
// released only while the turn waits. What one turn does, in which order: loop_run.cpp.
#pragma once

#include <Python.h>

#include <memory>

#include "ringloop/bridge/python/host.hpp"
#include "ringloop/scheduler.hpp"
#include "turn_traffic.hpp"

namespace ringloop::python {

struct loop_object;

// Something that runs once at the end of the current turn, before the loop submits and waits:
// queued sends, late arming. Intrusive: a member of the transport. run() may be called from stop,
// close and the end of a run as well.
struct turn_end_hook {
    using function = void (*)(turn_end_hook&) noexcept;
    explicit turn_end_hook(function callback = nullptr) noexcept : run(callback) {}
    function run;
    turn_end_hook* next = nullptr;
    bool queued = false;
};

extern PyTypeObject* loop_core_type;  // set at module initialisation

[[nodiscard]] inline bool is_loop(PyObject* object) noexcept {
    return PyObject_TypeCheck(object, loop_core_type);
}
[[nodiscard]] scheduler& native_of(loop_object* loop) noexcept;
[[nodiscard]] inline driver& io_of(loop_object* loop) noexcept {
    return native_of(loop).io();
}
[[nodiscard]] bridge::loop_host& host_of_loop(loop_object* loop) noexcept;
// Also one whose EventLoop.__init__() has not run.
[[nodiscard]] bool loop_is_closed(loop_object* loop) noexcept;
// RuntimeError("Event loop is closed"), or which of the other reasons it is. Returns -1.
int raise_closed(loop_object* loop) noexcept;
// A child's copy of its parent's loop: closed, too, and what it has queued is the parent's to send.
[[nodiscard]] bool loop_is_forked(loop_object* loop) noexcept;
[[nodiscard]] bool loop_debug(loop_object* loop) noexcept;
[[nodiscard]] turn_traffic& traffic_of(loop_object* loop) noexcept;
// In debug mode: 0, or -1 with AffinityError set: the loop runs in another thread. `what` was
// called.
[[nodiscard]] int check_thread(loop_object* loop, const char* what) noexcept;

// The loop's own call_soon with at most one argument (argument may be null) in `context` (null: the
// current one). 0, or -1 with a Python exception set.
int loop_call_soon(loop_object* loop, PyObject* callback, PyObject* argument,
                   PyObject* context) noexcept;
// Runs hook.run at the end of this turn; no effect if it is queued already.
void loop_at_turn_end(loop_object* loop, turn_end_hook& hook) noexcept;
void loop_cancel_turn_end(loop_object* loop, turn_end_hook& hook) noexcept;

// For completion handlers, which cannot raise: takes the exception that is set. SystemExit and
// KeyboardInterrupt end the run and are raised from run_forever(); true is returned for those.
// Others stay set and false is returned: the caller reports them in its own way (loop_report,
// transport._fatal_error).
[[nodiscard]] bool loop_take_fatal(loop_object* loop) noexcept;
// loop.call_exception_handler({'message': message, 'exception': <the exception that is set>, key:
// value …}); clears it. `key` and `value` may be null.
void loop_report(loop_object* loop, const char* message, const char* key, PyObject* value) noexcept;

// Descriptors that transports of this loop own (borrowed reference): add_reader() and new
// transports refuse them.
int loop_claim_fd(loop_object* loop, int fd,
                  PyObject* transport) noexcept;  // -1: RuntimeError, in use
void loop_release_fd(loop_object* loop, int fd) noexcept;

// Module initialisation, one per file of python/native: adds types to `module`; 0, or -1 with an
// exception set.
int add_loop_types(PyObject* module) noexcept;
int add_transport_types(PyObject* module) noexcept;
int add_socket_types(PyObject* module) noexcept;
int add_file_types(PyObject* module) noexcept;

}  // namespace ringloop::python
