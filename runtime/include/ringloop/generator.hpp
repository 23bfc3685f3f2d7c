// generator<T>: a coroutine that yields values one after the other, and may await in between.
//
//     generator<std::string> lines(net::tcp_stream& from);      co_yield each
//     auto all = lines(stream);
//     while (auto line = co_await all.next()) …                 nullopt: it has returned
//
// Lazy: nothing runs before the first next(), and nothing runs between two. What the body throws is
// thrown by that next(); the generator has then ended.
// Lifetime: the frame belongs to the generator object. It may be destroyed before it has ended, but
// not while a next() is under way. Reference parameters must outlive it.
// Thread: that of whoever awaits next(); one next() at a time.
// Cancel: the body runs in the scope of whoever awaits next(); a stop ends what it waits for. A
// body that lets operation_cancelled through has ended; a value that was yielded faster is
// returned.
#pragma once

#include <cassert>
#include <coroutine>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "ringloop/task.hpp"

namespace ringloop {

template <class T>
class [[nodiscard]] generator {
    static_assert(std::is_object_v<T>,
                  "a generator yields values; yield a pointer for a reference");

  public:
    struct promise_type : detail::promise_base {
        generator get_return_object() noexcept {
            return generator(std::coroutine_handle<promise_type>::from_promise(*this));
        }
        std::suspend_always initial_suspend() const noexcept { return {}; }
        detail::continue_awaiter final_suspend() const noexcept { return {}; }
        template <class U = T>
        requires std::convertible_to<U&&, T> detail::continue_awaiter yield_value(U&& value) {
            yielded.emplace(std::forward<U>(value));
            return {};
        }
        void return_void() const noexcept {}
        void unhandled_exception() noexcept { failure = detail::unhandled(); }
        std::optional<T> yielded;
        std::exception_ptr failure;
    };
    using value_type = T;

    generator() noexcept = default;
    generator(generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    generator& operator=(generator&& other) noexcept {
        std::swap(handle_, other.handle_);
        return *this;
    }
    ~generator() {
        if (handle_) handle_.destroy();
    }

    class next_await {
      public:
        [[nodiscard]] bool await_ready() const noexcept { return body_ == nullptr || body_.done(); }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> reader) noexcept {
            body_.promise().continuation = reader;
            body_.promise().scope = detail::scope_of(reader);
            return detail::transfer(body_);
        }
        [[nodiscard]] std::optional<T> await_resume() {
            if (body_ == nullptr) return std::nullopt;
            if (std::exception_ptr failure = std::exchange(body_.promise().failure, nullptr))
                std::rethrow_exception(failure);
            return std::exchange(body_.promise().yielded, std::nullopt);
        }

      private:
        friend class generator;
        explicit next_await(std::coroutine_handle<promise_type> body) noexcept : body_(body) {}
        std::coroutine_handle<promise_type> body_;
    };
    // The next value; nullopt once the body has returned, and ever after.
    [[nodiscard]] next_await next() noexcept { return next_await(handle_); }

  private:
    explicit generator(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    std::coroutine_handle<promise_type> handle_;
};

}  // namespace ringloop
