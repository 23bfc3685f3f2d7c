// actor: an object that handles messages one after the other, on one scheduler, and is made anew
// when it fails.
//
//     struct counter {
//         using message = int;
//         int sum = 0;
//         task<int> handle(int n) { co_return sum += n; }
//     };
//     actor<counter> sums(pool[1], [] { return std::make_unique<counter>(); });
//     co_await with_group([&](task_group& group) -> task<void> {
//         group.spawn(sums.serve());
//         co_await sums.tell(2);                   // in the mailbox
//         const int sum = co_await sums.ask(3);    // handled
//         co_await sums.close();                   // serve() handles what is left and returns
//     });
//
// Mailbox: bounded. When it is full, `full` says what becomes of a tell: it waits, is dropped, or
// throws mailbox_full. An ask waits, or throws mailbox_full. Order: one sender's messages are
// handled in the order of its awaits.
// Failure: what handle() throws goes to the asker. The handler is then destroyed and made anew;
// what is in the mailbox is kept. After more than `max_restarts` failures within `window`, or if
// making it fails, serve() throws that failure and the actor has ended: whoever waits for it, or
// comes later, gets actor_ended.
// Thread: everything but the constructor and the destructor is awaited on any scheduler, and goes
// over to `home`, where the handler is made, runs and is destroyed. A thread without a scheduler:
// spawn(home, sums.tell(2)).
// Lifetime: it outlives serve() and all awaits. serve() is called once; before it runs, messages
// wait. Handlers must not ask themselves: they would wait for their own end.
// Cancel: a tell or an ask that still waits for room has sent nothing; an ask that throws
// operation_cancelled later leaves its message to be handled. serve(): the handler is stopped, the
// mailbox is emptied, and it throws operation_cancelled.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "ringloop/on.hpp"
#include "ringloop/result.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/sync/channel.hpp"
#include "ringloop/sync/event.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

class mailbox_full : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override {
        return "ringloop: the actor's mailbox is full";
    }
};

class actor_ended : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override {
        return "ringloop: the actor has ended";
    }
};

enum class when_full : unsigned char { block, drop, error };

struct actor_options {
    std::size_t mailbox = 1024;  // at least 1
    when_full full = when_full::block;
    unsigned max_restarts = 0;  // within `window`; the next failure ends the actor
    std::chrono::nanoseconds window = std::chrono::seconds(60);
};

template <class Handler>
class actor {
    template <class T>
    struct value_of;
    template <class T>
    struct value_of<task<T>> {
        using type = T;
    };

  public:
    using message = typename Handler::message;
    using reply =
        typename value_of<decltype(std::declval<Handler&>().handle(std::declval<message>()))>::type;
    using factory = std::function<std::unique_ptr<Handler>()>;

    // `make` is called on `home`. Throws std::invalid_argument for a mailbox without room.
    actor(scheduler& home, factory make, const actor_options& options = {})
        : home_(home), make_(std::move(make)), options_(options), mailbox_(options.mailbox) {
        if (options.mailbox == 0) throw std::invalid_argument("ringloop: a mailbox without room");
    }
    actor(const actor&) = delete;
    actor& operator=(const actor&) = delete;

    // False: dropped.
    [[nodiscard]] task<bool> tell(message value) {
        return over(send({std::move(value), nullptr}, options_.full));
    }
    [[nodiscard]] task<reply> ask(message value) { return over(ask_here(std::move(value))); }
    // No more messages. Idempotent.
    [[nodiscard]] task<void> close() { return over(close_here()); }
    // Handles messages until it is closed, stopped, or fails for good.
    [[nodiscard]] task<void> serve() { return over(serve_here()); }

    [[nodiscard]] scheduler& home() const noexcept { return home_; }
    // From any thread.
    [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_.load(relaxed); }
    [[nodiscard]] std::uint64_t restarts() const noexcept { return restarts_.load(relaxed); }

  private:
    static constexpr auto relaxed = std::memory_order_relaxed;
    struct answer {
        result<reply> outcome;
        event done;
        void fail(std::exception_ptr failure) noexcept {
            outcome.set_error(std::move(failure));
            done.set();
        }
    };
    struct envelope {
        message value;
        std::shared_ptr<answer> to;  // shared: a cancelled asker leaves before its answer
    };

    template <class T>
    task<T> over(task<T> work) {
        if (scheduler::current() == &home_) {
            co_return co_await std::move(work);
        } else {
            co_return co_await on(home_, std::move(work));
        }
    }
    task<bool> send(envelope mail, when_full full) {
        if (mailbox_.is_closed()) throw actor_ended();
        if (mailbox_.try_send(std::move(mail))) co_return true;
        if (full == when_full::error) throw mailbox_full();
        if (full == when_full::drop) {
            dropped_.fetch_add(1, relaxed);
            co_return false;
        }
        try {
            co_await mailbox_.send(std::move(mail));
        } catch (const channel_closed&) {
            throw actor_ended();
        }
        co_return true;
    }
    task<reply> ask_here(message value) {
        auto mine = std::make_shared<answer>();
        const when_full full =
            options_.full == when_full::block ? when_full::block : when_full::error;
        envelope mail{std::move(value), mine};  // named: g++ 12 destroys a braced temporary twice
        co_await send(std::move(mail), full);
        co_await mine->done.wait();
        co_return mine->outcome.take();
    }
    task<void> close_here() {
        mailbox_.close();
        co_return;
    }
    task<void> serve_here() {
        std::exception_ptr failure;
        try {
            co_await handle_all();
        } catch (...) {
            failure = std::current_exception();
        }
        mailbox_.close();
        while (auto left = mailbox_.try_receive())
            if (left->to) left->to->fail(std::make_exception_ptr(actor_ended()));
        if (failure) std::rethrow_exception(failure);
    }
    task<void> handle_all() {
        stop_scope* const scope = co_await current_scope();
        std::unique_ptr<Handler> handler = make_();
        while (true) {
            std::optional<envelope> next = co_await mailbox_.receive();
            if (!next) co_return;
            std::exception_ptr failure;
            try {
                co_await handle(*handler, *next);
            } catch (...) {
                failure = std::current_exception();
            }
            if (!failure) continue;
            const bool stopped = scope != nullptr && scope->stop_requested();
            if (next->to)
                next->to->fail(stopped ? std::make_exception_ptr(actor_ended()) : failure);
            if (stopped || !may_restart()) std::rethrow_exception(failure);
            handler.reset();  // first: it may hold what the next one needs
            handler = make_();
            restarts_.fetch_add(1, relaxed);
        }
    }
    task<void> handle(Handler& handler, envelope& mail) {
        if constexpr (std::is_void_v<reply>) {
            co_await handler.handle(std::move(mail.value));
        } else {
            reply value = co_await handler.handle(std::move(mail.value));
            if (mail.to) mail.to->outcome.set_value(std::move(value));
        }
        if (mail.to) mail.to->done.set();
    }
    [[nodiscard]] bool may_restart() {
        const std::int64_t now = home_.now_ns();
        while (!failures_.empty() && now - failures_.front() >= options_.window.count())
            failures_.pop_front();
        failures_.push_back(now);
        return failures_.size() <= options_.max_restarts;
    }

    scheduler& home_;
    const factory make_;
    const actor_options options_;
    channel<envelope> mailbox_;
    std::deque<std::int64_t> failures_;  // within the window, oldest first
    std::atomic<std::uint64_t> dropped_{0};
    std::atomic<std::uint64_t> restarts_{0};
};

}  // namespace ringloop
