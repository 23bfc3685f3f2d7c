// uv_host: a scheduler as guest of a uv_loop_t, in a program that calls uv_run(), or in a Python
// process that runs uvloop.
//
//     uv_host host(uv_default_loop());
//     host.spawn(serve());                            // tasks keep uv_run() going
//     uv_run(uv_default_loop(), UV_RUN_DEFAULT);
//
// Callbacks of libuv's and tasks run on one thread, in turns: a callback may set an event or write
// to a channel that a task waits for, and a task may start libuv's handles. A task must not call
// uv_run() on the loop.
// Thread: the loop's; only native().post() and what uses it come from others, which needs keep()
// while no task is there.
// Lifetime: ended before uv_loop_close(), with the loop not running or in one of its callbacks (not
// in a task). The destructor asks the tasks to stop and turns the scheduler, not the loop, until
// they have ended. Its three handles are closed as all are: the loop needs one more round for that.
// Cancel: stop() asks all tasks to stop.
#pragma once

#include <uv.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>

#include "ringloop/interop/detail/hosted_scheduler.hpp"
#include "ringloop/interop/detail/uv_claim.hpp"
#include "ringloop/interop/detail/uv_functions.hpp"
#include "ringloop/task.hpp"

namespace ringloop::interop {

class uv_host : private detail::host_hooks {
  public:
    explicit uv_host(uv_loop_t* loop,
                     const driver_config& config = detail::hosted_scheduler::modest())
        : uv_host(loop, uv_functions::linked(), config) {}
    // `uv`: of the libuv that made the loop.
    uv_host(uv_loop_t* loop, const uv_functions& uv,
            const driver_config& config = detail::hosted_scheduler::modest())
        : host_hooks{&uv_host::watch, &uv_host::call_again, &uv_host::arm},
          claim_(loop),
          loop_(loop),
          guest_(*this, config),
          handles_(new handles{uv, this}) {
        const int failed = uv.poll_init(loop, &handles_->poll, guest_.native().io().pollable_fd());
        if (failed != 0) {
            delete handles_;
            throw std::runtime_error(std::string("ringloop: uv_poll_init: ") + uv.strerror(failed));
        }
        uv.timer_init(loop, &handles_->timer);
        uv.idle_init(loop, &handles_->idle);
        for (uv_handle_t* each : handles_->all()) each->data = handles_;
        uv.unref(as_handle(handles_->timer));
        uv.unref(as_handle(handles_->idle));
    }
    ~uv_host() {
        guest_.end_all();
        handles_->owner = nullptr;
        for (uv_handle_t* each : handles_->all()) handles_->uv.close(each, &uv_host::on_close);
    }
    uv_host(const uv_host&) = delete;
    uv_host& operator=(const uv_host&) = delete;

    [[nodiscard]] scheduler& native() noexcept { return guest_.native(); }
    [[nodiscard]] uv_loop_t* loop() const noexcept { return loop_; }
    // Starts now; what it throws goes to set_error_log()'s handler.
    void spawn(task<void> work) { detail::hosted_task::start(guest_, std::move(work)); }
    void stop() noexcept { guest_.stop_all(); }
    // Keeps uv_run() from returning, and the ring watched, while there is no task.
    void keep() noexcept {
        guest_.keep();
        guest_.turn_later();  // which announces the sleep to those who post
    }
    void let_go() noexcept { guest_.let_go(); }

  private:
    template <class Handle>
    static uv_handle_t* as_handle(Handle& handle) noexcept {
        return reinterpret_cast<uv_handle_t*>(&handle);
    }
    // They outlive the host until libuv has closed them.
    struct handles {
        handles(const uv_functions& functions, uv_host* host) noexcept
            : uv(functions), owner(host) {}
        [[nodiscard]] std::array<uv_handle_t*, 3> all() noexcept {
            return {as_handle(poll), as_handle(timer), as_handle(idle)};
        }
        uv_functions uv;
        uv_host* owner;
        unsigned open = 3;
        uv_poll_t poll;
        uv_timer_t timer;
        uv_idle_t idle;
    };

    static void on_close(uv_handle_t* handle) {
        auto* const all = static_cast<handles*>(handle->data);
        if (--all->open == 0) delete all;
    }
    template <class Handle>
    [[nodiscard]] static uv_host& owner_of(Handle* handle) noexcept {
        return *static_cast<handles*>(handle->data)->owner;
    }
    static void watch(host_hooks& hooks, bool on) noexcept {
        auto& self = static_cast<uv_host&>(hooks);
        const uv_functions& uv = self.handles_->uv;
        if (on) {
            uv.poll_start(&self.handles_->poll, UV_READABLE,
                          [](uv_poll_t* handle, int, int) { owner_of(handle).guest_.turn(); });
        } else {
            uv.poll_stop(&self.handles_->poll);
            uv.timer_stop(&self.handles_->timer);
            self.guest_.disarmed();
        }
    }
    static void call_again(host_hooks& hooks) noexcept {
        auto& self = static_cast<uv_host&>(hooks);
        self.handles_->uv.idle_start(&self.handles_->idle, [](uv_idle_t* handle) {
            uv_host& host = owner_of(handle);
            host.handles_->uv.idle_stop(handle);
            host.guest_.turn();
        });
    }
    // libuv counts in milliseconds, from the time at which its round began: never early.
    static void arm(host_hooks& hooks, std::int64_t deadline_ns) noexcept {
        auto& self = static_cast<uv_host&>(hooks);
        constexpr std::int64_t ms = 1'000'000;
        const std::int64_t delay_ns = deadline_ns - self.native().now_ns();
        const auto delay_ms =
            delay_ns > 0 ? static_cast<std::uint64_t>((delay_ns + ms - 1) / ms) : 0;
        self.handles_->uv.update_time(self.loop_);
        self.handles_->uv.timer_start(
            &self.handles_->timer,
            [](uv_timer_t* handle) {
                uv_host& host = owner_of(handle);
                host.guest_.disarmed();
                host.guest_.turn();
            },
            delay_ms, 0);
    }

    detail::uv_claim claim_;
    uv_loop_t* loop_;
    detail::hosted_scheduler guest_;
    handles* handles_;
};

}  // namespace ringloop::interop
