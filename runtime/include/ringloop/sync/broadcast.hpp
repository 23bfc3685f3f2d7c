// broadcast<T>: every subscriber gets every value sent since it subscribed.
//
//     broadcast<price> prices(64);
//     auto mine = prices.subscribe();
//     while (auto p = co_await mine.receive()) …        nullopt: closed, and all received
//
// Sending never waits. The last `capacity` values are kept for slow subscribers; one that falls
// further behind is told so by broadcast_lagged, once, and goes on with the oldest value kept.
// Thread: one scheduler's. Lifetime: it outlives its subscriptions. T is copied once a subscriber.
// Cancel: receive() loses nothing: the value is the next receive's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ringloop/detail/wait_list.hpp"

namespace ringloop {

class broadcast_lagged : public std::exception {
  public:
    explicit broadcast_lagged(std::uint64_t missed) noexcept : missed_(missed) {}
    // How many values this subscriber will never see.
    [[nodiscard]] std::uint64_t missed() const noexcept { return missed_; }
    [[nodiscard]] const char* what() const noexcept override {
        return "ringloop: a subscriber was too slow and missed values";
    }

  private:
    std::uint64_t missed_;
};

template <class T>
class broadcast {
  public:
    class subscription;

    class receive_await : private detail::parked {
      public:
        explicit receive_await(subscription& reader) noexcept : reader_(reader) {}
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle) || reader_.from_->has_news(reader_.next_)) return false;
            park(reader_.from_->waiting_, handle);
            return true;
        }
        // Throws broadcast_lagged.
        [[nodiscard]] std::optional<T> await_resume() {
            throw_if_stopped();
            return reader_.from_->take(reader_.next_);
        }

      private:
        subscription& reader_;
    };

    // Reads at its own pace, one receive() at a time. Move-only, not while one waits.
    class subscription {
      public:
        subscription(subscription&&) noexcept = default;
        subscription& operator=(subscription&&) noexcept = default;
        [[nodiscard]] receive_await receive() noexcept { return receive_await(*this); }

      private:
        friend class broadcast;
        friend class receive_await;
        subscription(broadcast& from, std::uint64_t next) noexcept : from_(&from), next_(next) {}
        broadcast* from_;
        std::uint64_t next_;
    };

    // Throws std::invalid_argument for 0.
    explicit broadcast(std::size_t capacity) : capacity_(capacity) {
        if (capacity == 0)
            throw std::invalid_argument("ringloop::broadcast: a capacity of at least 1 is needed");
    }
    [[nodiscard]] subscription subscribe() noexcept { return {*this, end()}; }
    // Throws std::logic_error once it is closed.
    void send(T value) {
        if (closed_) throw std::logic_error("ringloop::broadcast: send after close");
        values_.push_back(std::move(value));
        if (values_.size() > capacity_) {
            values_.pop_front();
            ++first_;
        }
        wake_all();
    }
    void close() noexcept {
        closed_ = true;
        wake_all();
    }
    [[nodiscard]] bool is_closed() const noexcept { return closed_; }

  private:
    [[nodiscard]] std::uint64_t end() const noexcept { return first_ + values_.size(); }
    [[nodiscard]] bool has_news(std::uint64_t next) const noexcept {
        return closed_ || next < end();
    }
    [[nodiscard]] std::optional<T> take(std::uint64_t& next) {
        if (next < first_) throw broadcast_lagged(first_ - std::exchange(next, first_));
        if (next == end()) return std::nullopt;
        return values_[static_cast<std::size_t>(next++ - first_)];
    }
    void wake_all() noexcept {
        while (!waiting_.empty()) waiting_.first()->wake();
    }

    const std::size_t capacity_;
    std::deque<T> values_;
    std::uint64_t first_ = 0;  // number of the oldest value kept
    detail::wait_list waiting_;
    bool closed_ = false;
};

}  // namespace ringloop
