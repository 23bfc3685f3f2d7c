// uv_guest: a uv_loop_t driven by a scheduler, beside its tasks. The ring polls the loop's backend
// descriptor and keeps its next timer; uv_run(UV_RUN_NOWAIT) does the rest, between two turns.
//
// Thread: the scheduler's; the loop belongs to it meanwhile. uv_async_send() works from any.
// Callbacks of libuv's may do what tasks' code may, but not throw, and not destroy the guest. Tasks
// may call libuv: handles that they start are seen before the scheduler sleeps, and uv_now() is the
// time at which it woke.
// Nobody else calls uv_run() on the loop while the guest lives. uv_stop() ends one round, not the
// guest. sync_wait() or run() of the same scheduler inside of a callback throw std::logic_error.
// Lifetime: shorter than the scheduler's, and ended before uv_loop_close(). The loop is not closed
// by the guest, nor are its handles.
// Cancel: finished() throws operation_cancelled; the loop goes on while the guest lives.
#pragma once

#include <poll.h>
#include <uv.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/interop/detail/uv_claim.hpp"
#include "ringloop/operation.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/sync/event.hpp"
#include "ringloop/task.hpp"
#include "ringloop/timer.hpp"

namespace ringloop::interop {

class uv_guest : private scheduler::turn_hook {
  public:
    // Of the scheduler that runs the calling coroutine.
    explicit uv_guest(uv_loop_t* loop) : uv_guest(loop, ringloop::detail::running_scheduler()) {}
    uv_guest(uv_loop_t* loop, scheduler& home)
        : turn_hook{&uv_guest::before_look, &uv_guest::after_sleep},
          claim_(loop),
          loop_(loop),
          home_(home),
          poll_(*this),
          alarm_(*this) {
        uv_update_time(loop_);
        home_.add(*this);
    }
    ~uv_guest() {
        home_.remove(*this);
        home_.timers().cancel(alarm_);
        home_.io().retire(poll_);
    }
    uv_guest(const uv_guest&) = delete;
    uv_guest& operator=(const uv_guest&) = delete;

    // Has active handles or requests, or handles that are closing.
    [[nodiscard]] bool alive() const noexcept { return uv_loop_alive(loop_) != 0; }
    // Until it has none, which is when uv_run(UV_RUN_DEFAULT) would return. (A template, so that
    // who has only a uv_host, of another libuv, needs no function of this one.)
    template <class = void>
    task<void> finished() {
        while (alive()) {
            idle_.reset();
            co_await idle_.wait();
        }
    }
    [[nodiscard]] uv_loop_t* loop() const noexcept { return loop_; }

  private:
    // uv_now() may be that of a coarse clock, behind the driver's: asked again after this time.
    static constexpr std::int64_t clock_lag_ns = 250'000;

    struct poll_operation : operation {
        explicit poll_operation(uv_guest& guest) noexcept
            : operation([](operation& self, const completion&) noexcept {
                  static_cast<poll_operation&>(self).owner.due_ = true;
              }),
              owner(guest) {}
        uv_guest& owner;
    };
    struct alarm : timer {
        explicit alarm(uv_guest& guest) noexcept
            : timer([](timer& self) noexcept { static_cast<alarm&>(self).owner.due_ = true; }),
              owner(guest) {}
        uv_guest& owner;
    };

    static void before_look(turn_hook& hook) noexcept {
        auto& self = static_cast<uv_guest&>(hook);
        if (!self.running_) self.drive();
    }
    static void after_sleep(turn_hook& hook) noexcept {
        auto& self = static_cast<uv_guest&>(hook);
        if (!self.running_) uv_update_time(self.loop_);
    }

    void drive() noexcept {
        if (uv_backend_fd(loop_) < 0) return;  // closed behind our back
        bool ran = false;
        // Zero: something waits for a round, be it only to tell the backend of a new handle.
        if (alive() && (due_ || uv_backend_timeout(loop_) == 0)) {
            due_ = false;
            running_ = ran = true;
            uv_run(loop_, UV_RUN_NOWAIT);
            running_ = false;
        }
        if (!alive()) {
            home_.timers().cancel(alarm_);
            home_.io().cancel(poll_);  // nothing of ours keeps scheduler::run() going
            idle_.set();
            return;
        }
        if (!poll_.in_flight()) {
            poll_.prepare_poll(uv_backend_fd(loop_), POLLIN);
            home_.io().submit(poll_);
        }
        arm(uv_backend_timeout(loop_), ran);
    }
    void arm(int timeout_ms, bool ran) noexcept {
        if (timeout_ms < 0) return home_.timers().cancel(alarm_);
        const std::int64_t now_ns = home_.now_ns();
        std::int64_t deadline_ns = now_ns;
        if (timeout_ms > 0) {
            constexpr std::int64_t ms = 1'000'000;
            deadline_ns = (static_cast<std::int64_t>(uv_now(loop_)) + timeout_ms) * ms;
            if (ran) deadline_ns = std::max(deadline_ns, now_ns + clock_lag_ns);
        }
        if (alarm_.armed() && alarm_.deadline_ns == deadline_ns) return;
        home_.timers().cancel(alarm_);
        home_.timers().insert(alarm_, deadline_ns, now_ns);
    }

    detail::uv_claim claim_;
    uv_loop_t* loop_;
    scheduler& home_;
    poll_operation poll_;
    alarm alarm_;
    event idle_;
    bool due_ = false;
    bool running_ = false;  // uv_run() is on the stack
};

}  // namespace ringloop::interop
