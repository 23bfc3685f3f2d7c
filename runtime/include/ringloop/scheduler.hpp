// scheduler: runs coroutines on one thread, over one driver.
//
// It owns the ready queue, the timers and the inboxes. Two ways to use it:
//  - run(): the scheduler owns the thread (native services);
//  - turn by turn: a host (the Python loop, a foreign loop) calls poll()/wait(), run_native() and
//  run_host() itself.
//
// Thread: all members but post(), post_host() and stop() belong to the thread that runs it; that
// thread may change between turns. Nothing here needs Python; run_native() may be called with or
// without the GIL.
#pragma once

#include <pthread.h>

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "ringloop/detail/transfer.hpp"
#include "ringloop/driver.hpp"
#include "ringloop/inbox.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/timer.hpp"

namespace ringloop {

namespace detail {
class resident;
}

class scheduler {
  public:
    explicit scheduler(const driver_config& config = {});
    explicit scheduler(std::unique_ptr<driver> body);
    // Has sockets, files and generators that are still there give up what they hold, retires what
    // is in flight, drops what is queued. Coroutines that wait must have ended before.
    ~scheduler();
    scheduler(const scheduler&) = delete;
    scheduler& operator=(const scheduler&) = delete;

    // The scheduler whose run(), run_native() or run_host() is on this thread's stack, or null.
    [[nodiscard]] static scheduler* current() noexcept;

    [[nodiscard]] driver& io() noexcept { return *driver_; }
    [[nodiscard]] std::int64_t now_ns() const noexcept { return driver_->now_ns(); }

    // ---- same thread
    // Resumes `handle` in a later step of run_native(), in order.
    void schedule(std::coroutine_handle<> handle) noexcept;
    // For who starts a coroutine that nobody awaits: sees to it that schedule() has room for one
    // more at a time, so that it need not allocate. Throws std::bad_alloc. dismiss() at its end.
    void enlist();
    void dismiss() noexcept { --enlisted_; }
    [[nodiscard]] timer_wheel& timers() noexcept { return timers_; }

    // ---- any thread
    void post(posted& node) noexcept;       // run in run_native()
    void post_host(posted& node) noexcept;  // run in run_host(), under the host's lock
    void stop() noexcept;                   // run() returns after the current turn
    [[nodiscard]] bool stop_requested() const noexcept {
        return stop_requested_.load(std::memory_order_relaxed);
    }

    // Makes this scheduler current() for as long as the entry lives: for hosts that call native
    // code outside run_native() and run_host().
    class entry {
      public:
        explicit entry(scheduler& entered) noexcept;
        ~entry();
        entry(const entry&) = delete;
        entry& operator=(const entry&) = delete;

      private:
        scheduler* previous_;
    };

    // Work is under way elsewhere (on another thread) and will be posted here: run() does not
    // return for want of work between hold() and the matching release(). Same thread.
    void hold() noexcept { ++held_; }
    void release() noexcept { --held_; }
    [[nodiscard]] bool is_held() const noexcept { return held_ != 0; }

    // ---- debugging: long steps. A step is one resume of a coroutine, up to its next wait or end.
    struct step_watch {
        // `owner` is that of the scope (stop.hpp) in which the step ended or went to wait; null:
        // not known. On the scheduler's thread, inside the step's caller: it resumes nothing.
        void (*slow)(step_watch& self, void* owner, std::int64_t took_ns) noexcept;
        std::int64_t limit_ns;  // steps that take as long are told
    };
    // Null: nobody, the default, which costs a step nothing but this being asked. Same thread.
    void watch_steps(step_watch* watch) noexcept { watch_ = watch; }
    [[nodiscard]] step_watch* watched() const noexcept { return watch_; }
    // Resumes `handle` now, as a step. Same thread, with this scheduler current().
    void resume(std::coroutine_handle<> handle) {
        if (watch_ == nullptr) [[likely]]
            detail::resume(handle);
        else
            resume_watched(handle);
    }
    // For awaiters: the step goes to wait in `scope` (may be null).
    void note_wait(const stop_scope* scope) noexcept {
        if (watch_ != nullptr) [[unlikely]]
            step_owner_ = scope != nullptr ? scope->owner() : nullptr;
    }
    // The step ends what `owner` had to run, and `owner` may be gone when its caller goes on.
    void note_end(void* owner) noexcept {
        if (watch_ != nullptr) [[unlikely]]
            end_step(owner);
    }

    // ---- loops that this one drives (interop/uv_guest). Intrusive, told in order of add(). Same
    // thread; not removed from within their own functions.
    struct turn_hook {
        void (*before)(turn_hook& self) noexcept;  // each look at the kernel: may run anything
        void (*after)(turn_hook& self) noexcept;   // a sleep: before anything else runs
        turn_hook* next = nullptr;
    };
    void add(turn_hook& hook) noexcept;
    void remove(turn_hook& hook) noexcept;
    // ---- for a host that turns only when it has to: told when a coroutine became ready outside
    // of a turn. Null: nobody. Same thread.
    struct ready_notice {
        void (*call)(ready_notice& self) noexcept;
    };
    void notify(ready_notice* notice) noexcept { notice_ = notice; }

    // Pool buffers that coroutines hold as leases right now (buffer.hpp).
    [[nodiscard]] unsigned leases_handed_out() const noexcept { return leases_; }
    // Posts from any thread that were run here so far. Changed by this thread.
    [[nodiscard]] std::uint64_t posts_run() const noexcept { return posts_run_; }
    void count_lease() noexcept { ++leases_; }
    // A buffer of the pool, `counted` if it was on loan; on another thread it goes back in the next
    // turn. *this may be gone after the last one of a scheduler that has ended.
    void give_back(buffer_id id, bool counted) noexcept;

    // ---- for an owner of the thread: turns until stop() is called, or nothing is left that could
    // make progress. Throws std::logic_error inside of a turn of this scheduler.
    void run();

    // ---- for hosts
    // Earliest native timer, 0 if native work is ready now, no_deadline if there is nothing to wait
    // for but I/O.
    [[nodiscard]] std::int64_t next_deadline_ns() noexcept;
    // Something for run_native() or run_host() is queued (posts, completions, ready coroutines).
    [[nodiscard]] bool has_native_work() const noexcept;
    [[nodiscard]] bool has_host_work() const noexcept;
    void poll() noexcept {
        if (hooks_ != nullptr) [[unlikely]]
            run_hooks();
        take_turn();
        driver_->poll();
    }
    // Waits for I/O, a post, a native timer or `deadline_ns`, whichever is first. Call it without
    // the host's lock. `has_work` (optional) is a further reason not to sleep, see wait_request.
    wait_result wait(std::int64_t deadline_ns, std::int64_t spin_ns = 0,
                     bool (*has_work)(void*) = nullptr, void* context = nullptr) noexcept;
    // Native completions, posts, due timers, ready coroutines; bounded: at most `max` steps.
    // Returns the steps made.
    std::size_t run_native(std::size_t max = 1024) noexcept;
    // Host completions and host posts that were queued when it was called, at most `max` of each;
    // the rest is left for the next call. Returns how many ran.
    std::size_t run_host(std::size_t max = SIZE_MAX) noexcept;
    // Instead of the destructor, for hosts of objects that may outlive it with a lease in them
    // (Python has them): it then stays, at rest, with its buffers and descriptors, until the last
    // lease has been given back, on any one thread.
    static void end(std::unique_ptr<scheduler> left) noexcept;
    // In a forked child: see driver::abandon_after_fork(). Threads that were posting at the fork
    // are not there to be waited for.
    void abandon_after_fork() noexcept;
    void abandon_to_poller_after_fork() noexcept;  // likewise

  private:
    friend class detail::resident;
    struct ready_queue;
    static constexpr std::int64_t no_step = INT64_MIN;
    static constexpr std::memory_order relaxed = std::memory_order_relaxed;
    void post_to(inbox& queue, posted& node) noexcept;
    void resume_watched(std::coroutine_handle<> handle);
    void end_step(void* owner) noexcept;
    void come_to_rest() noexcept;
    void send_away() noexcept;
    void end_ending() noexcept;
    [[nodiscard]] bool turns_elsewhere() const noexcept {
        const pthread_t turns_on = turns_on_.load(relaxed);
        return turns_on != 0 && turns_on != ::pthread_self();
    }
    void take_turn() noexcept {
        if (const pthread_t here = ::pthread_self(); turns_on_.load(relaxed) != here)
            turns_on_.store(here, relaxed);
    }
    void run_hooks() noexcept;

    std::unique_ptr<driver> driver_;
    timer_wheel timers_;
    std::unique_ptr<ready_queue> ready_;
    inbox native_inbox_;
    inbox host_inbox_;
    posted* native_posts_ = nullptr;  // taken, not yet run (bounded drains)
    posted* host_posts_ = nullptr;
    std::atomic<bool> stop_requested_{false};
    std::atomic<unsigned> posting_{0};  // threads inside post(), post_host() or stop()
    std::size_t enlisted_ = 0;
    std::size_t held_ = 0;
    std::uint64_t posts_run_ = 0;
    unsigned leases_ = 0;
    bool ended_ = false;
    detail::resident* residents_ = nullptr;  // detail/resident.hpp
    detail::resident* ending_ = nullptr;     // those that ended on another thread
    std::vector<buffer_id> given_back_;      // loans that ended there; never grows
    std::atomic<bool> has_ending_{false};
    std::atomic<pthread_t> turns_on_{0};  // the thread of the latest turn; 0: none yet
    turn_hook* hooks_ = nullptr;
    ready_notice* notice_ = nullptr;
    step_watch* watch_ = nullptr;
    void* step_owner_ = nullptr;
    std::int64_t step_begin_ns_ = no_step;  // of the step under way, while it is to be told
};

}  // namespace ringloop
