// with_group, task_group: several tasks at once, none of which outlives the group.
//
//     co_await with_group([&](task_group& group) -> task<void> {
//         group.spawn(one());
//         group.spawn(two(), on_error::log);
//         co_return;
//     });
//
// with_group() returns when the body and every task spawned have ended. A failure of the body, or
// of a task under on_error::cancel_group, stops all others and is thrown once they have ended (the
// first one; later ones are dropped). A task under on_error::log ends alone: its failure goes to
// set_error_log()'s handler. operation_cancelled caused by a stop of the group is no failure.
// Lifetime: the body's own locals end with the body, before the tasks: what tasks refer to, even a
// lambda that is itself a coroutine, is declared outside of with_group().
// Thread: the awaiting task's scheduler's; spawn() from there only.
// Cancel: a stop from outside stops the body and the tasks; with_group() throws operation_cancelled
// after all have ended.
#pragma once

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

enum class on_error : unsigned char { cancel_group, log };

class task_group {
  public:
    explicit task_group(stop_scope* outer);
    ~task_group();  // asserts that all have ended: join() first; with_group() does
    task_group(const task_group&) = delete;
    task_group& operator=(const task_group&) = delete;

    // Starts at the next step of the scheduler, in order.
    void spawn(task<void> work, on_error policy = on_error::cancel_group);
    // Asks all of them to stop. The group then ends without an error.
    void cancel() noexcept {
        cancelled_by_owner_ = true;
        scope_.request_stop();
    }
    [[nodiscard]] std::size_t running() const noexcept { return running_; }
    [[nodiscard]] stop_scope& scope() noexcept { return scope_; }

    // Waits until all have ended; is not interrupted by a stop, which the tasks hear themselves.
    struct join_await {
        task_group& group;
        [[nodiscard]] bool await_ready() const noexcept { return group.running_ == 0; }
        void await_suspend(std::coroutine_handle<> handle) noexcept {
            group.joiner_ = handle;
            group.home_.note_wait(&group.scope_);
        }
        void await_resume() const noexcept {}
    };
    [[nodiscard]] join_await join() noexcept { return {*this}; }
    // Keeps the first failure and stops the group. Throws it again in rethrow().
    void fail(std::exception_ptr failure) noexcept;
    void rethrow();

  private:
    friend struct member_access;
    void ended(std::exception_ptr failure, on_error policy) noexcept;

    scheduler& home_;
    stop_scope scope_;
    std::size_t running_ = 0;
    std::coroutine_handle<> joiner_;
    std::exception_ptr first_failure_;
    stop_scope* outer_;
    bool cancelled_by_owner_ = false;
    bool member_stopped_ = false;
};

namespace detail {
[[nodiscard]] bool is_cancel(const std::exception_ptr& failure) noexcept;
}

template <class Body>
task<void> with_group(Body body) {
    task_group group(co_await current_scope());
    try {
        co_await body(group).in(group.scope());
    } catch (...) {
        group.fail(std::current_exception());
    }
    co_await group.join();
    group.rethrow();
}

}  // namespace ringloop
