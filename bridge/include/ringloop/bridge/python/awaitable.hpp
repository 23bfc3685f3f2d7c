// awaitable: ringloop.Awaitable, what native work looks like to Python: a coroutine and a future in
// one object. Its work is a `source`.
//
//     idle --start--> pending --finish--> value | error | cancelled
//       \--cancel(), close(), throw()-----------------^
//
// Rules
//  1. It starts, and binds its loop, at the first await (send) or add_done_callback. Until then
//     `_asyncio_future_blocking` is None, so asyncio takes it for a coroutine: ensure_future(),
//     gather() and shield() wrap it in a Task.
//  2. While pending it holds a reference to itself: Python may drop it at any time.
//  3. After cancel() returned True it ends with CancelledError, when its source has ended and not
//     before; with the source's error where it failed() on the way. What the source got all the
//     same goes back to it: undelivered().
//  4. What reaches into its loop while another thread runs that raises AffinityError: an await, a
//     cancel(), a callback. Left by close() or throw() there, as the collector may, its work is
//     stopped by the loop's own thread.
//  5. It is awaited once; a second await raises RuntimeError. result() may be called again.
//
// Thread: the loop's, GIL held, for everything here.
#pragma once

#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "ringloop/bridge/python/host.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::bridge {

struct awaitable;

// The work behind one awaitable, which owns it. Memory comes from Python's small-object allocator.
class source {
  public:
    source() noexcept = default;
    virtual ~source() = default;
    source(const source&) = delete;
    source& operator=(const source&) = delete;

    // Begins. awaitable::finish() follows exactly once: from here (then nothing of *this may be
    // touched afterwards: it may be gone), or later from the host's phase of a turn.
    virtual void start(loop_host& host, awaitable& owner) noexcept = 0;
    // Asks it to end soon; finish() still follows. May come more than once.
    virtual void request_cancel() noexcept = 0;
    // Returns once finish() was called: its loop is closing. May release the GIL. What waits for
    // threads of others may return earlier where !host.is_patient(): it is never touched again.
    virtual void collect() noexcept = 0;
    // Asked once, inside finish(): a new reference, or null with an exception set.
    [[nodiscard]] virtual PyObject* result() noexcept = 0;
    // For the collector: visits what it holds of Python and what may lead back to the loop.
    virtual int traverse(visitproc, void*) noexcept { return 0; }
    // Ended by an error of its own, which a cancel must not hide. Asked after finish().
    [[nodiscard]] virtual bool failed() const noexcept { return false; }
    // Nobody takes the result: `value` is what result() returned, null if it was not asked.
    virtual void undelivered(PyObject* value) noexcept { static_cast<void>(value); }
    [[nodiscard]] virtual const char* name() const noexcept = 0;  // for repr()
    // Whether to be dropped unstarted deserves a warning, as a coroutine's does.
    [[nodiscard]] virtual bool warns() const noexcept { return false; }
    // This is a forked child, where nothing of it may run any more: it is the parent's. No Python.
    virtual void left_behind() noexcept {}

    // True keeps the source alive until its value has been taken, for undelivered().
    bool takes_back = false;

    [[nodiscard]] static void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
        return PyObject_Malloc(size);
    }
    static void operator delete(void* memory) noexcept { PyObject_Free(memory); }
    static void operator delete(void* memory, const std::nothrow_t&) noexcept {
        PyObject_Free(memory);
    }
};

struct awaitable {
    enum class state : std::uint8_t { idle, pending, value, error, cancelled };

    PyObject ob_base;
    source* work;
    loop_host* host;     // while pending
    PyObject* loop;      // once started
    PyObject* callback;  // the first one, and its context, are held in place
    PyObject* context;
    PyObject* callbacks;  // list of (callback, context), or null
    PyObject* outcome;    // the value or the exception
    PyObject* message;    // cancel(msg=…)
    PyObject* site;       // where it was made, in debug mode: lines of a traceback
    PyObject* traceback;  // of the exception, as it came: each raise goes on from there
    PyObject* weak_references;
    awaitable* previous;  // the host's list of pending ones
    awaitable* next;
    state now;
    bool blocking;  // asyncio's handshake: "I was yielded by an await"
    bool awaited;   // an await began
    bool yielded;   // a task is parked on it
    bool taken;     // the await got its outcome
    bool cancel_requested;
    bool retrieved;  // somebody saw the exception
    bool shared;     // the one finished None
    bool collected;  // its loop's end has waited for it

    [[nodiscard]] bool done() const noexcept { return now > state::pending; }
    [[nodiscard]] PyObject* object() noexcept { return &ob_base; }

    // Called by the source, once, when it has ended.
    void finish() noexcept;

    // 0, or -1 with an exception set.
    [[nodiscard]] int start() noexcept;
    // True: it ends, or has ended, with CancelledError. `why` may be null.
    bool cancel(PyObject* why) noexcept;
    // 0, or -1 with AffinityError set: another thread runs its loop. `what` was asked of it.
    [[nodiscard]] int check_thread(const char* what) noexcept;
    // Likewise where another loop runs here.
    [[nodiscard]] int check_loop() noexcept;
    // Its consumer leaves (throw, close): nobody waits for the outcome any more.
    void leave() noexcept;
    // Raises what it ended with, or returns a new reference to the value.
    [[nodiscard]] PyObject* take() noexcept;
    [[nodiscard]] int add_callback(PyObject* function, PyObject* run_in) noexcept;
    // Its loop is closing: returns when it has ended, or is left behind (loop_host::end_all()).
    void collect() noexcept;

    void drop_work(PyObject* value, bool delivered) noexcept;

  private:
    friend class loop_host;
    void fail(ref exception) noexcept;
    void end_in_child() noexcept;
    void link(loop_host& to) noexcept;
    void unlink() noexcept;
    void cancel_from_elsewhere() noexcept;
    void run_callbacks(loop_host& on) noexcept;
};

// The work behind an asynchronous iterator, which owns it. Thread and lock as above.
class iterator_source {
  public:
    iterator_source() noexcept = default;
    virtual ~iterator_source() = default;
    iterator_source(const iterator_source&) = delete;
    iterator_source& operator=(const iterator_source&) = delete;
    // __anext__() and aclose(): a new awaitable, or null with an exception set.
    [[nodiscard]] virtual PyObject* next() noexcept = 0;
    [[nodiscard]] virtual PyObject* close() noexcept = 0;
    virtual int traverse(visitproc, void*) noexcept { return 0; }
    [[nodiscard]] virtual const char* name() const noexcept = 0;  // for repr()
};

extern PyTypeObject* awaitable_type;  // set by add_awaitable_types()

// An unstarted awaitable that owns `work` (null: out of memory). New reference, or null with an
// exception set.
[[nodiscard]] PyObject* new_awaitable(std::unique_ptr<source> work) noexcept;
template <typename Source, typename... Arguments>
[[nodiscard]] PyObject* await_source(Arguments&&... arguments) noexcept {
    return new_awaitable(
        std::unique_ptr<source>(new (std::nothrow) Source(std::forward<Arguments>(arguments)...)));
}
// Already finished: the shared None (any number of awaits), or one with a value of its own.
[[nodiscard]] PyObject* finished_none() noexcept;
[[nodiscard]] PyObject* finished_value(ref value) noexcept;

// Live awaitables, pending ones among them, iterators, and jobs of executors; for the ledger.
extern long awaitables_live;
extern long awaitables_pending;
extern long iterators_live;
extern long jobs_live;

// Adds `Awaitable` and the capsule `api` to `module`: 0, or -1 with an exception set.
int add_awaitable_types(PyObject* module) noexcept;

}  // namespace ringloop::bridge
