// mutex, shared_mutex: one coroutine at a time, across its awaits; or one that writes, or many that
// read.
//
//     mutex m;
//     auto lock = co_await m.lock();              unlocks when `lock` ends
//     shared_mutex s;
//     auto reading = co_await s.lock_shared();
//
// Between two awaits nothing else runs on a scheduler's thread anyway: these are for state that
// must hold still while its owner waits. Fair: first come, first served; a writer in line keeps
// later readers back. Not recursive: locking twice in one coroutine waits for ever. Thread: one
// scheduler's. Lifetime: it outlives its waiters and its locks. Cancel: lock() throws
// operation_cancelled and locks nothing; a lock that was faster is returned.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>

#include "ringloop/detail/wait_list.hpp"

namespace ringloop {

class shared_mutex {
    enum class hold : unsigned char { none, shared, unique };

  public:
    // Holds the lock as long as it lives. Move-only.
    class [[nodiscard]] guard {
      public:
        guard() noexcept = default;
        guard(guard&& other) noexcept
            : mutex_(std::exchange(other.mutex_, nullptr)), how_(other.how_) {}
        guard& operator=(guard&& other) noexcept {
            std::swap(mutex_, other.mutex_);
            std::swap(how_, other.how_);
            return *this;
        }
        ~guard() { unlock(); }
        void unlock() noexcept {
            if (shared_mutex* held = std::exchange(mutex_, nullptr)) held->release(how_);
        }
        [[nodiscard]] explicit operator bool() const noexcept { return mutex_ != nullptr; }

      private:
        friend class shared_mutex;
        friend class condition;
        guard(shared_mutex& held, hold how) noexcept : mutex_(&held), how_(how) {}
        shared_mutex* mutex_ = nullptr;
        hold how_ = hold::none;
    };

    class lock_await : private detail::parked {
      public:
        [[nodiscard]] bool await_ready() const noexcept { return false; }
        template <class Promise>
        bool await_suspend(std::coroutine_handle<Promise> handle) {
            if (refused(handle) || mutex_.take(how_)) return false;
            park(mutex_.waiting_, handle);
            return true;
        }
        [[nodiscard]] guard await_resume() {
            throw_if_stopped();
            return {mutex_, how_};
        }

      private:
        friend class shared_mutex;
        friend class condition;
        lock_await(shared_mutex& locked, hold how) noexcept
            : parked(&lock_await::let_pass), mutex_(locked), how_(how) {}
        static void let_pass(parked& self) noexcept {
            static_cast<lock_await&>(self).mutex_.serve();
        }
        shared_mutex& mutex_;
        const hold how_;
    };

    shared_mutex() noexcept = default;
    [[nodiscard]] lock_await lock() noexcept { return {*this, hold::unique}; }
    [[nodiscard]] lock_await lock_shared() noexcept { return {*this, hold::shared}; }
    // Without waiting, and never past those who wait.
    [[nodiscard]] std::optional<guard> try_lock() noexcept { return try_take(hold::unique); }
    [[nodiscard]] std::optional<guard> try_lock_shared() noexcept { return try_take(hold::shared); }
    [[nodiscard]] bool is_locked() const noexcept { return writing_ || readers_ != 0; }

  private:
    [[nodiscard]] bool fits(hold how) const noexcept {
        return !writing_ && (how == hold::shared || readers_ == 0);
    }
    void enter(hold how) noexcept {
        if (how == hold::unique) {
            writing_ = true;
        } else {
            ++readers_;
        }
    }
    [[nodiscard]] bool take(hold how) noexcept {
        if (!waiting_.empty() || !fits(how)) return false;
        enter(how);
        return true;
    }
    [[nodiscard]] std::optional<guard> try_take(hold how) noexcept {
        if (!take(how)) return std::nullopt;
        return guard(*this, how);
    }
    void release(hold how) noexcept {
        if (how == hold::unique) {
            writing_ = false;
        } else {
            --readers_;
        }
        serve();
    }
    void serve() noexcept {
        while (!waiting_.empty()) {
            auto* first = static_cast<lock_await*>(waiting_.first());
            if (!fits(first->how_)) return;
            enter(first->how_);
            first->wake();
        }
    }
    detail::wait_list waiting_;
    std::size_t readers_ = 0;
    bool writing_ = false;
};

class mutex {
  public:
    using guard = shared_mutex::guard;
    [[nodiscard]] shared_mutex::lock_await lock() noexcept { return lock_.lock(); }
    [[nodiscard]] std::optional<guard> try_lock() noexcept { return lock_.try_lock(); }
    [[nodiscard]] bool is_locked() const noexcept { return lock_.is_locked(); }

  private:
    shared_mutex lock_;
};

}  // namespace ringloop
