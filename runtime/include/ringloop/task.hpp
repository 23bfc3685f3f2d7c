// task<T>: a lazy coroutine with exactly one owner.
//
// It starts when it is awaited, runs on the awaiting coroutine's thread, and hands its value or its
// exception to the awaiter. `co_await std::move(t)` or `co_await f()`; a task is awaited once.
// Lifetime: the frame belongs to the task object. Destroying a task that was never awaited is fine;
// one that is suspended in the middle must not be destroyed (its operations are in flight: they
// assert). Frames come from a pool per thread. A coroutine's reference parameters must outlive it.
// Cancellation: see stop.hpp; a task runs in its awaiter's scope.
// Stack: a loop over any number of awaits that finish at once needs constant stack, on every
// compiler and at every optimisation level (detail/transfer.hpp).
#pragma once

#include <cassert>
#include <concepts>
#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

#include "ringloop/detail/frame_pool.hpp"
#include "ringloop/detail/transfer.hpp"
#include "ringloop/result.hpp"
#include "ringloop/stop.hpp"

namespace ringloop {

template <class T = void>
class task;

namespace detail {

// Base of the promises that awaiters of this library know.
struct promise_base : pooled_frame {
    std::coroutine_handle<> continuation = std::noop_coroutine();
    stop_scope* scope = nullptr;
};

// The scope that a coroutine runs in; null for foreign coroutines.
template <class Promise>
[[nodiscard]] stop_scope* scope_of(std::coroutine_handle<Promise> handle) noexcept {
    if constexpr (std::derived_from<Promise, promise_base>) {
        return handle.promise().scope;
    } else {
        static_cast<void>(handle);
        return nullptr;
    }
}

struct continue_awaiter {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
        return transfer(ended.promise().continuation);
    }
    void await_resume() const noexcept {}
};

// What a coroutine ends with. There is no exception where its thread is being ended and the stack
// unwound (pthread_exit()): swallowed, that would abort the process with words of the C library's;
// so it comes to the program's terminate handler.
[[nodiscard]] inline std::exception_ptr unhandled() noexcept {
    std::exception_ptr failure = std::current_exception();
    if (!failure) std::terminate();
    return failure;
}

template <class T>
struct task_promise_base : promise_base {
    std::suspend_always initial_suspend() const noexcept { return {}; }
    continue_awaiter final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { outcome.set_error(unhandled()); }
    result<T> outcome;
};

template <class T>
struct task_promise final : task_promise_base<T> {
    task<T> get_return_object() noexcept;
    template <class U = T>
    requires std::convertible_to<U&&, T>
    void return_value(U&& value) { this->outcome.set_value(std::forward<U>(value)); }
};

template <>
struct task_promise<void> final : task_promise_base<void> {
    task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
};

}  // namespace detail

template <class T>
class [[nodiscard]] task {
  public:
    using promise_type = detail::task_promise<T>;
    using value_type = T;
    using handle_type = std::coroutine_handle<promise_type>;

    task() noexcept = default;
    explicit task(handle_type handle) noexcept : handle_(handle) {}
    task(task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    task& operator=(task&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~task() {
        if (handle_) handle_.destroy();
    }

    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(handle_); }
    [[nodiscard]] bool done() const noexcept { return handle_ && handle_.done(); }

    // Gives the task a scope of its own instead of its awaiter's. Before it starts; the scope
    // outlives it.
    task&& in(stop_scope& scope) && noexcept {
        handle_.promise().scope = &scope;
        return std::move(*this);
    }

    struct awaiter {
        handle_type awaited;
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) noexcept {
            auto& promise = awaited.promise();
            promise.continuation = parent;
            if (promise.scope == nullptr) promise.scope = detail::scope_of(parent);
            return detail::transfer(awaited);
        }
        T await_resume() { return awaited.promise().outcome.take(); }
    };
    [[nodiscard]] awaiter operator co_await() && noexcept {
        assert(handle_ && !handle_.done() && "an empty task, or one that was awaited already");
        return awaiter{handle_};
    }

  private:
    handle_type handle_;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() noexcept {
    return task<T>(task<T>::handle_type::from_promise(*this));
}

inline task<void> task_promise<void>::get_return_object() noexcept {
    return task<void>(task<void>::handle_type::from_promise(*this));
}

}  // namespace detail

// co_await current_scope(): the awaiting coroutine's scope, or null. Does not suspend.
struct current_scope {
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) noexcept {
        scope = detail::scope_of(handle);
        return false;
    }
    [[nodiscard]] stop_scope* await_resume() const noexcept { return scope; }
    stop_scope* scope = nullptr;
};

}  // namespace ringloop
