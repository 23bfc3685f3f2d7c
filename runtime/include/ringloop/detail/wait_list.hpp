// wait_list: coroutines that wait in line for an object of ringloop/sync/, first come, first
// served.
//
// A parked awaiter lives in its coroutine's frame. The object wakes it once it has given it what it
// waits for: from then on a stop request comes too late, so that nothing that was given is lost. A
// stop request that is faster takes it out of the line.
//
// Thread: one scheduler's. The object outlives its waiters (asserted).
#pragma once

#include <cassert>
#include <coroutine>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/task.hpp"

namespace ringloop::detail {

class parked;

class wait_list {
  public:
    wait_list() noexcept = default;
    ~wait_list() { assert(first_ == nullptr && "destroyed while coroutines wait for it"); }
    wait_list(const wait_list&) = delete;
    wait_list& operator=(const wait_list&) = delete;
    [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }
    [[nodiscard]] parked* first() const noexcept { return first_; }

  private:
    friend class parked;
    parked* first_ = nullptr;
    parked* last_ = nullptr;
};

class parked : private stop_waiter {
  public:
    parked(const parked&) = delete;
    parked& operator=(const parked&) = delete;
    // Out of the line, and resumed in a later step. By the object, once it has given.
    void wake() noexcept {
        unlink();
        leave();
        home_->schedule(waiting_);
    }

  protected:
    // `given_up` hears that a stop took this one out of its line, where that lets others go on.
    using given_up_handler = void (*)(parked&) noexcept;
    explicit parked(given_up_handler given_up = nullptr) noexcept
        : stop_waiter(&parked::ask_to_stop), given_up_(given_up) {}
    ~parked() = default;

    // First in await_suspend(): an await that begins after a stop request must not begin.
    template <class Promise>
    [[nodiscard]] bool refused(std::coroutine_handle<Promise> handle) noexcept {
        scope_ = scope_of(handle);
        stopped_ = scope_ != nullptr && scope_->stop_requested();
        return stopped_;
    }
    // Then, if there is nothing to be had at once.
    void park(wait_list& line, std::coroutine_handle<> handle) {
        home_ = &running_scheduler();
        waiting_ = handle;
        line_ = &line;
        previous_ = line.last_;
        (previous_ != nullptr ? previous_->next_ : line.first_) = this;
        line.last_ = this;
        home_->note_wait(scope_);
        if (scope_ != nullptr) scope_->add(*this);
    }
    // In await_resume().
    void throw_if_stopped() const {
        if (stopped_) [[unlikely]]
            throw operation_cancelled();
    }
    [[nodiscard]] bool stopped() const noexcept { return stopped_; }

  private:
    static void ask_to_stop(stop_waiter& waiter) noexcept {
        auto& self = static_cast<parked&>(waiter);
        self.stopped_ = true;
        self.leave();
        self.home_->schedule(self.waiting_);
        if (self.given_up_ != nullptr) self.given_up_(self);
    }
    void leave() noexcept {
        (previous_ != nullptr ? previous_->next_ : line_->first_) = next_;
        (next_ != nullptr ? next_->previous_ : line_->last_) = previous_;
        previous_ = nullptr;
        next_ = nullptr;
    }

    const given_up_handler given_up_;
    scheduler* home_ = nullptr;
    stop_scope* scope_ = nullptr;
    wait_list* line_ = nullptr;
    parked* previous_ = nullptr;
    parked* next_ = nullptr;
    std::coroutine_handle<> waiting_;
    bool stopped_ = false;
};

}  // namespace ringloop::detail
