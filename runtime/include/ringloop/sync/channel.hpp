// channel<T>: a bounded queue between coroutines; any number of senders and of receivers.
//
//     channel<int> numbers(16);
//     co_await numbers.send(7);                         waits while it is full
//     while (auto n = co_await numbers.receive()) …     waits while it is empty; nullopt: closed
//
// Capacity 0 hands each value from a sender to a receiver who meet. Order: that of the sends;
// senders and receivers who wait are served first come, first served. Thread: one scheduler's.
// Lifetime: it outlives its waiters. T moves without throwing. Cancel: a receive loses nothing: a
// value that was faster is returned, any other stays in the channel. A send that throws
// operation_cancelled has not sent; its value is gone with it.
#pragma once

#include <cstddef>
#include <deque>
#include <exception>
#include <optional>
#include <type_traits>
#include <utility>

#include "ringloop/detail/wait_list.hpp"

namespace ringloop {

// Thrown by a send into a closed channel.
class channel_closed : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override {
        return "ringloop: send into a closed channel";
    }
};

template <class T>
class channel {
    static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_move_assignable_v<T>,
                  "a channel's values move without throwing");

  public:
    class send_await : private detail::parked {
      public:
        send_await(channel& to, T value) noexcept : channel_(to), value_(std::move(value)) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle)) return false;
            sent_ = channel_.give(value_);
            if (sent_ || channel_.closed_) return false;
            park(channel_.senders_, handle);
            return true;
        }
        void await_resume() const {
            if (sent_) [[likely]]
                return;
            throw_if_stopped();
            throw channel_closed();
        }

      private:
        friend class channel;
        channel& channel_;
        T value_;
        bool sent_ = false;
    };

    class receive_await : private detail::parked {
      public:
        explicit receive_await(channel& from) noexcept : channel_(from) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle)) return false;
            value_ = channel_.take();
            if (value_ || channel_.closed_) return false;
            park(channel_.receivers_, handle);
            return true;
        }
        [[nodiscard]] std::optional<T> await_resume() {
            throw_if_stopped();
            return std::move(value_);
        }

      private:
        friend class channel;
        channel& channel_;
        std::optional<T> value_;
    };

    explicit channel(std::size_t capacity) : capacity_(capacity) {}

    // Throws channel_closed, also if it is closed while this waits: the value was not sent then.
    [[nodiscard]] send_await send(T value) noexcept { return {*this, std::move(value)}; }
    // The next value; nullopt once the channel is closed and empty.
    [[nodiscard]] receive_await receive() noexcept { return receive_await(*this); }
    // Without waiting. False (full or closed): `value` is left as it was.
    [[nodiscard]] bool try_send(T&& value) { return give(value); }
    // Without waiting; nullopt if there is nothing.
    [[nodiscard]] std::optional<T> try_receive() { return take(); }

    // No more sends: senders who wait throw, receivers get what is left and then nullopt.
    // Idempotent.
    void close() noexcept {
        closed_ = true;
        while (!senders_.empty()) senders_.first()->wake();
        while (!receivers_.empty()) receivers_.first()->wake();
    }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }
    [[nodiscard]] std::size_t size() const noexcept { return values_.size(); }
    [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }

  private:
    // Moves from `value` only if it returns true.
    [[nodiscard]] bool give(T& value) {
        if (closed_) return false;
        if (!receivers_.empty()) {
            auto* first = static_cast<receive_await*>(receivers_.first());
            first->value_ = std::move(value);
            first->wake();
            return true;
        }
        if (values_.size() >= capacity_) return false;
        values_.push_back(std::move(value));
        return true;
    }
    [[nodiscard]] std::optional<T> take() {
        std::optional<T> taken;
        auto* sender = static_cast<send_await*>(senders_.first());
        if (!values_.empty()) {
            if (sender != nullptr) values_.push_back(std::move(sender->value_));
            taken = std::move(values_.front());
            values_.pop_front();
        } else if (sender != nullptr) {
            taken = std::move(sender->value_);
        }
        if (sender != nullptr) {
            sender->sent_ = true;
            sender->wake();
        }
        return taken;
    }

    const std::size_t capacity_;
    std::deque<T> values_;
    detail::wait_list senders_;
    detail::wait_list receivers_;
    bool closed_ = false;
};

}  // namespace ringloop
