// asio_host: a scheduler as guest of an io_context, on the thread that runs it. run(): the main()
// of a program that lives in one.
//
//     asio_host host(io);
//     host.spawn(serve(host));       // tasks await Asio's operations and ringloop's own
//     io.run();                      // returns when Asio's work and the tasks have ended
//
// Tasks begin Asio's operations at once and go on inside their handlers: no hop. The ring is
// watched by the io_context's reactor while tasks are there, whether that is epoll or io_uring.
// Thread: the one that runs the io_context, one at a time (between two runs it may change).
// Lifetime: shorter than the io_context's. The destructor asks the tasks to stop and runs the
// io_context, whatever else is in it, until they have ended.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include "ringloop/interop/detail/asio_config.hpp"
#include "ringloop/interop/detail/hosted_scheduler.hpp"
#include "ringloop/result.hpp"
#include "ringloop/task.hpp"

namespace ringloop::interop::inline RINGLOOP_ASIO_NAMESPACE {

class asio_host : private interop::detail::host_hooks {
  public:
    explicit asio_host(asio::io_context& io,
                       const driver_config& config = interop::detail::hosted_scheduler::modest())
        : host_hooks{&asio_host::watch, &asio_host::call_again, &asio_host::arm},
          io_(io),
          alive_(std::make_shared<asio_host*>(this)),
          guest_(*this, config),
          ring_(io, guest_.native().io().pollable_fd()),
          timer_(io) {}
    ~asio_host() {
        stop();
        while (!guest_.idle() && turn_io()) {
        }
        guest_.end_all();
        *alive_ = nullptr;
        timer_.cancel();
        ring_.release();  // the descriptor is the driver's
    }
    asio_host(const asio_host&) = delete;
    asio_host& operator=(const asio_host&) = delete;

    [[nodiscard]] scheduler& native() noexcept { return guest_.native(); }
    [[nodiscard]] asio::io_context& context() noexcept { return io_; }
    // Starts now; what it throws goes to set_error_log()'s handler. On the io_context's thread.
    void spawn(task<void> work) { interop::detail::hosted_task::start(guest_, std::move(work)); }
    // Asks all tasks to stop.
    void stop() noexcept { guest_.stop_all(); }
    // Keeps io.run() from returning, and the ring watched, while there is no task: for what other
    // threads post to native().
    void keep() noexcept {
        guest_.keep();
        guest_.turn_later();  // which announces the sleep to those who post
    }
    void let_go() noexcept { guest_.let_go(); }

    // For this library's own headers.
    [[nodiscard]] interop::detail::hosted_scheduler& guest() noexcept { return guest_; }

  private:
    [[nodiscard]] bool turn_io() {
        if (io_.stopped()) io_.restart();
        return io_.run_one() != 0;
    }
    static void watch(host_hooks& hooks, bool on) noexcept {
        auto& self = static_cast<asio_host&>(hooks);
        self.watched_ = on;
        if (!on) {
            self.ring_.cancel();
            self.timer_.cancel();
            self.guest_.disarmed();
        } else if (!self.waiting_) {
            self.wait();
        }
    }
    void wait() {
        waiting_ = true;
        ring_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [alive = alive_](const asio_error_code& code) {
                             asio_host* const self = *alive;
                             if (self != nullptr) self->readable(code);
                         });
    }
    void readable(const asio_error_code& code) {
        waiting_ = false;
        if (!code) guest_.turn();
        if (watched_ && !waiting_) wait();
    }
    static void call_again(host_hooks& hooks) noexcept {
        auto& self = static_cast<asio_host&>(hooks);
        asio::post(self.io_, [alive = self.alive_] {
            if (*alive != nullptr) (*alive)->guest_.turn();
        });
    }
    static void arm(host_hooks& hooks, std::int64_t deadline_ns) noexcept {
        auto& self = static_cast<asio_host&>(hooks);
        const std::int64_t delay_ns = deadline_ns - self.native().now_ns();
        self.timer_.expires_after(std::chrono::nanoseconds(delay_ns > 0 ? delay_ns : 0));
        self.timer_.async_wait([alive = self.alive_](const asio_error_code& code) {
            if (code || *alive == nullptr) return;
            (*alive)->guest_.disarmed();
            (*alive)->guest_.turn();
        });
    }

    asio::io_context& io_;
    std::shared_ptr<asio_host*> alive_;  // of handlers that come after the end
    bool watched_ = false;
    bool waiting_ = false;  // a handler for the ring's descriptor is under way
    interop::detail::hosted_scheduler guest_;
    asio::posix::stream_descriptor ring_;
    asio::steady_timer timer_;
};

// Runs `io` on this thread until `work` has ended; its value, or what it threw. When `io` is
// stopped, or has nothing more to do while the task waits for good, the task is asked to stop.
template <class T>
T run(asio::io_context& io, task<T> work) {
    result<T> outcome;
    bool ended = false;
    {
        asio_host host(io);
        host.spawn([](task<T> inner, result<T>& into, bool& done) -> task<void> {
            try {
                if constexpr (std::is_void_v<T>) {
                    co_await std::move(inner);
                } else {
                    into.set_value(co_await std::move(inner));
                }
            } catch (...) {
                into.set_error(std::current_exception());
            }
            done = true;
        }(std::move(work), outcome, ended));
        while (!ended) {
            if (io.run_one() != 0) continue;
            host.stop();
            io.restart();
        }
    }
    return outcome.take();
}

}  // namespace ringloop::interop::inline RINGLOOP_ASIO_NAMESPACE
