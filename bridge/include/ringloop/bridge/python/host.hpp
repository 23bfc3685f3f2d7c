// loop_host: how native work reaches one asyncio loop and comes back. One per Python event loop:
// ringloop's own loop embeds one (same ring); stock asyncio and uvloop get a guest (a scheduler of
// its own under one add_reader).
//
// Thread: the loop's, with the GIL held, except where said.
#pragma once

#include <Python.h>

#include <atomic>

#include "ringloop/bridge/core/job.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::bridge {

struct awaitable;
class loop_link;

class loop_host {
  public:
    // Inline, so that the type's name is in each module that asks a sanitizer about it.
    virtual ~loop_host() { drop_link(); }
    loop_host(const loop_host&) = delete;
    loop_host& operator=(const loop_host&) = delete;

    [[nodiscard]] scheduler& native() noexcept { return *native_; }
    [[nodiscard]] PyObject* loop() noexcept { return loop_; }  // borrowed
    // loop.call_soon(callback, argument, context=context): 0, or -1 with a Python exception set.
    virtual int call_soon(PyObject* callback, PyObject* argument, PyObject* context) noexcept = 0;
    // Whether another thread runs the loop at this moment.
    [[nodiscard]] bool runs_elsewhere() noexcept;
    // Told after every driver::submit() and cancel(): a guest brings it to the kernel before the
    // foreign loop sleeps, and may deliver what completed at once. ringloop's own turn does both.
    virtual void submitted() noexcept {}

    // Ends what awaitables have in flight here: cancels, waits for the last completions, calls no
    // callback any more. A loop calls it in close(), before it drops its scheduler. Idempotent.
    // While the interpreter is ending, it waits a second: what threads have not ended by then is
    // left behind, for good. Nothing of this host nor of its scheduler may be freed then.
    void end_all() noexcept;
    [[nodiscard]] bool ended() const noexcept { return ended_; }
    // This is a forked child, and the loop is its parent's.
    [[nodiscard]] bool is_parents() const noexcept { return is_parents_; }
    // Whether somebody still runs what call_soon() is given.
    [[nodiscard]] virtual bool runs_callbacks() const noexcept { return !ended_; }
    // Until when source::collect() may wait for other threads.
    [[nodiscard]] std::int64_t patience_ns() const noexcept { return patience_ns_; }
    [[nodiscard]] bool is_patient() noexcept {
        return patience_ns_ == no_deadline || native_->now_ns() < patience_ns_;
    }
    [[nodiscard]] bool left_behind() const noexcept { return left_behind_; }
    // The awaitables in flight, for the collector: they are kept alive from here.
    int traverse(visitproc visit, void* context) noexcept;
    // In a forked child: what was in flight is the parent's; nothing of it may be touched.
    void forget_after_fork() noexcept;
    // Where jobs of this loop post themselves, from any thread.
    [[nodiscard]] job_home home() noexcept { return {this, &loop_host::post_home}; }

    // This loop for the threads of other libraries (capi.h): borrowed; null: no memory.
    [[nodiscard]] loop_link* link() noexcept;

    // File operations on the ring, and those done in place since one last went to the ring: see
    // the NOWAIT-first rule in files.hpp.
    unsigned files_in_flight = 0;
    unsigned files_in_place = 0;
    unsigned jobs_in_flight = 0;                         // on worker threads
    unsigned long thread = PyThread_get_thread_ident();  // that ran the loop last

    // Debug mode: native steps of loop.slow_callback_duration and longer are told. Looks at the
    // loop's present state. No exception is left set.
    void watch_steps() noexcept;

  protected:
    loop_host(PyObject* loop, scheduler* native) noexcept : loop_(loop), native_(native) {}
    PyObject* loop_;
    scheduler* native_;

  private:
    friend struct awaitable;
    struct slow_steps : scheduler::step_watch {
        loop_host* host;
    };
    static void tell_slow_step(scheduler::step_watch& watch, void* owner,
                               std::int64_t took_ns) noexcept;
    void drop_link() noexcept;
    void leave_pending() noexcept;
    static void post_home(void* context, posted& node) noexcept;
    awaitable* pending_ = nullptr;      // in flight, newest first; each holds a reference to itself
    std::atomic<unsigned> posting_{0};  // workers inside post_home()
    loop_link* link_ = nullptr;         // made when asked for
    slow_steps watch_{{&loop_host::tell_slow_step, 0}, this};
    bool ended_ = false;
    bool is_parents_ = false;
    bool left_behind_ = false;
    std::int64_t patience_ns_ = no_deadline;
};

// The host of a running loop; makes a guest the first time a foreign loop is seen. Null with an
// exception set on failure.
[[nodiscard]] loop_host* host_of(PyObject* loop) noexcept;
// Module initialisation: how loops of ringloop's own type answer host_of(); it returns null for
// others (no exception).
void set_own_loops(loop_host* (*host_if_own)(PyObject* loop) noexcept) noexcept;
// Every guest of a foreign loop, with its driver, which is at rest wherever somebody else has the
// GIL. `visit` runs no Python code.
void each_guest(void (*visit)(PyObject* loop, const driver& io, void* context) noexcept,
                void* context) noexcept;
// The loop that runs on this thread (new reference), or null with RuntimeError set.
[[nodiscard]] PyObject* running_loop() noexcept;

}  // namespace ringloop::bridge
