// Task groups: the coroutine around each member, the count, the first failure.
#include "ringloop/task_group.hpp"

#include <cassert>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"

namespace ringloop {

struct member_access {
    static void ended(task_group& group, std::exception_ptr failure, on_error policy) noexcept {
        group.ended(std::move(failure), policy);
    }
};

namespace {

// Owns itself: its frame goes when it has ended, before the joiner runs.
struct member {
    struct promise_type : detail::promise_base {
        member get_return_object() noexcept {
            return {std::coroutine_handle<promise_type>::from_promise(*this)};
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        std::suspend_never final_suspend() const noexcept { return {}; }
        void return_void() const noexcept {}
        void unhandled_exception() const noexcept { std::terminate(); }
    };
    std::coroutine_handle<promise_type> handle;
};

member run_member(task_group& group, task<void> work, on_error policy) {
    std::exception_ptr failure;
    try {
        task<void> mine = std::move(work);  // its frame, arguments included, goes first
        co_await std::move(mine);
    } catch (...) {
        failure = std::current_exception();
    }
    member_access::ended(group, std::move(failure), policy);
}

}  // namespace

bool detail::is_cancel(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const operation_cancelled&) {
        return true;
    } catch (...) {
        return false;
    }
}

task_group::task_group(stop_scope* outer)
    : home_(detail::running_scheduler()), scope_(outer), outer_(outer) {}

task_group::~task_group() {
    assert(running_ == 0 && "a task group died before its tasks");
}

void task_group::spawn(task<void> work, on_error policy) {
    home_.enlist();
    member started{};
    try {
        started = run_member(*this, std::move(work), policy);
    } catch (...) {
        home_.dismiss();
        throw;
    }
    started.handle.promise().scope = &scope_;
    ++running_;
    home_.schedule(started.handle);
}

void task_group::ended(std::exception_ptr failure, on_error policy) noexcept {
    if (failure != nullptr) {
        if (scope_.stop_requested() && detail::is_cancel(failure)) {
            member_stopped_ = true;
        } else if (policy == on_error::log) {
            detail::log_failure(std::move(failure));
        } else {
            fail(std::move(failure));
        }
    }
    --running_;
    home_.dismiss();
    home_.note_wait(&scope_);
    if (running_ == 0 && joiner_) home_.schedule(std::exchange(joiner_, nullptr));
}

void task_group::fail(std::exception_ptr failure) noexcept {
    if (first_failure_ == nullptr ||
        (detail::is_cancel(first_failure_) && !detail::is_cancel(failure)))
        first_failure_ = std::move(failure);
    scope_.request_stop();
}

void task_group::rethrow() {
    const bool stopped_outside = outer_ != nullptr && outer_->stop_requested();
    const std::exception_ptr failure = std::exchange(first_failure_, nullptr);
    if (failure != nullptr) {
        const bool wanted = cancelled_by_owner_ && !stopped_outside && detail::is_cancel(failure);
        if (!wanted) std::rethrow_exception(failure);
    } else if (stopped_outside && member_stopped_) {
        throw operation_cancelled();
    }
}

}  // namespace ringloop
