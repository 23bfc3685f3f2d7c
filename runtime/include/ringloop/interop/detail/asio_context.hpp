// asio_context: an execution context of Asio's over a scheduler, and its executor. What is
// submitted to it runs on the scheduler's thread, one after the other, as in a strand.
//
//     asio_context here(*scheduler::current());
//     asio::ip::tcp::socket socket(here.get_executor());   // handlers run on the scheduler
//     asio::co_spawn(here.get_executor(), coroutine(), asio::detached);
//
// I/O objects over it wait on a thread that Asio makes for it, the first time one is made.
// Thread: get_executor() and submitting: any. Made and destroyed on the scheduler's own, and
// destroyed before the scheduler, not from a handler: what was submitted and did not run is dropped
// then. A handler that throws ends the process, as on asio::thread_pool. A scheduler's run() does
// not count what was submitted as a reason to go on; run() of a task, sync_wait() and hosts do not
// need that.
#pragma once

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>

#include "ringloop/inbox.hpp"
#include "ringloop/interop/detail/asio_config.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::interop::inline RINGLOOP_ASIO_NAMESPACE {

class asio_context;

namespace detail {

// The functions on their way to the scheduler. Posted as one node, which the scheduler may hold
// when the context ends: then it frees itself.
class handler_queue : private posted {
  public:
    struct node : posted {
        using posted::posted;
        bool dropped = false;  // destroy it, do not call it
    };
    explicit handler_queue(scheduler& home) noexcept
        : posted(&handler_queue::arrive), home_(home) {}

    void push(node& handler) noexcept {
        handlers_.push(handler);
        if (!posted_.exchange(true, std::memory_order_acq_rel)) home_.post(*this);
    }
    // By the context's destructor; nobody pushes any more. This object may be gone afterwards.
    void end() noexcept {
        for (posted* each = handlers_.take_all(); each != nullptr;) {
            posted* const after = each->next;
            static_cast<node*>(each)->dropped = true;
            each->run(*each);
            each = after;
        }
        ended_ = true;
        if (!posted_.load(std::memory_order_acquire)) delete this;
    }
    [[nodiscard]] scheduler& home() const noexcept { return home_; }

  private:
    static void arrive(posted& self) noexcept {
        auto& queue = static_cast<handler_queue&>(self);
        if (queue.ended_) {
            delete &queue;
            return;
        }
        queue.posted_.exchange(false, std::memory_order_acq_rel);
        for (posted* each = queue.handlers_.take_all(); each != nullptr;) {
            posted* const after = each->next;
            each->run(*each);
            each = after;
        }
    }

    scheduler& home_;
    inbox handlers_;
    std::atomic<bool> posted_{false};
    bool ended_ = false;  // of the scheduler's thread
};

template <class Function>
struct submitted final : handler_queue::node {
    explicit submitted(Function to_call) : node(&submitted::take), function(std::move(to_call)) {}
    static void take(posted& self) noexcept {
        // Freed before the call, as Asio does: what it submits may use the memory again.
        std::unique_ptr<submitted> mine(static_cast<submitted*>(&self));
        const bool dropped = mine->dropped;
        Function function(std::move(mine->function));
        mine.reset();
        if (!dropped) std::move(function)();
    }
    Function function;
};

}  // namespace detail

// Blocking: possibly (runs at once on the scheduler's thread, inside of it) or never.
class asio_executor {
  public:
    asio_executor(asio_context& context, detail::handler_queue& queue, bool never) noexcept
        : context_(&context), queue_(&queue), never_(never) {}

    friend bool operator==(const asio_executor& a, const asio_executor& b) noexcept {
        return a.queue_ == b.queue_ && a.never_ == b.never_;
    }
    friend bool operator!=(const asio_executor& a, const asio_executor& b) noexcept {
        return !(a == b);
    }
    [[nodiscard]] bool running_in_this_thread() const noexcept {
        return scheduler::current() == &queue_->home();
    }

    template <class Function>
    void execute(Function&& function) const {
        if (!never_ && running_in_this_thread()) {
            std::decay_t<Function> here(std::forward<Function>(function));
            here();
        } else {
            push(std::forward<Function>(function));
        }
    }
    [[nodiscard]] asio_context& query(asio::execution::context_t) const noexcept {
        return *context_;
    }
    [[nodiscard]] asio::execution::blocking_t query(asio::execution::blocking_t) const noexcept {
        if (never_) return asio::execution::blocking.never;
        return asio::execution::blocking.possibly;
    }
    [[nodiscard]] asio_executor require(asio::execution::blocking_t::never_t) const noexcept {
        return {*context_, *queue_, true};
    }
    [[nodiscard]] asio_executor require(asio::execution::blocking_t::possibly_t) const noexcept {
        return {*context_, *queue_, false};
    }

    // The members of an executor of the Networking TS.
    [[nodiscard]] asio_context& context() const noexcept { return *context_; }
    void on_work_started() const noexcept {}
    void on_work_finished() const noexcept {}
    template <class Function, class Allocator>
    void dispatch(Function&& function, const Allocator&) const {
        asio_executor(*context_, *queue_, false).execute(std::forward<Function>(function));
    }
    template <class Function, class Allocator>
    void post(Function&& function, const Allocator&) const {
        push(std::forward<Function>(function));
    }
    template <class Function, class Allocator>
    void defer(Function&& function, const Allocator&) const {
        push(std::forward<Function>(function));
    }

  private:
    template <class Function>
    void push(Function&& function) const {
        queue_->push(
            *new detail::submitted<std::decay_t<Function>>(std::forward<Function>(function)));
    }

    asio_context* context_;
    detail::handler_queue* queue_;
    bool never_;
};

class asio_context : public asio::execution_context {
  public:
    using executor_type = asio_executor;
    explicit asio_context(scheduler& home) : queue_(new detail::handler_queue(home)) {}
    ~asio_context() {
        shutdown();  // Asio's thread has ended after it
        destroy();
        queue_->end();
    }
    [[nodiscard]] executor_type get_executor() noexcept { return {*this, *queue_, false}; }
    [[nodiscard]] scheduler& native() const noexcept { return queue_->home(); }

  private:
    detail::handler_queue* queue_;
};

}  // namespace ringloop::interop::inline RINGLOOP_ASIO_NAMESPACE
