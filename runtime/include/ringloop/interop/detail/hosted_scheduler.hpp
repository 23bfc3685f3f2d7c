// hosted_scheduler: a scheduler that is the guest of a foreign loop, and the tasks in it.
//
// The host watches the descriptor, keeps a timer, and calls turn(); `hooks` are what it is told.
// Tasks that were spawned here keep the foreign loop alive; without one nothing is watched.
// Thread: the foreign loop's. Another one may run the loop later, where all that is in flight can
// move to it; turn() throws std::logic_error otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>

#include "ringloop/on.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::interop::detail {

struct host_hooks {
    void (*watch)(host_hooks& host, bool on) noexcept;  // the descriptor, and the loop kept alive
    void (*call_again)(host_hooks& host) noexcept;      // a turn at the loop's next round
    // A turn at that time (scheduler::now_ns()'s clock); earlier than the last one asked for.
    void (*arm)(host_hooks& host, std::int64_t deadline_ns) noexcept;
};

class hosted_scheduler : private scheduler::ready_notice {
  public:
    hosted_scheduler(host_hooks& hooks, const driver_config& config)
        : ready_notice{&hosted_scheduler::became_ready},
          native_(config),
          hooks_(hooks),
          thread_(std::this_thread::get_id()) {
        native_.notify(this);
    }
    ~hosted_scheduler() { end_all(); }
    hosted_scheduler(const hosted_scheduler&) = delete;
    hosted_scheduler& operator=(const hosted_scheduler&) = delete;

    // Of a guest: it shares its thread, and has fewer operations in flight.
    [[nodiscard]] static driver_config modest() noexcept {
        driver_config config;
        config.submission_entries = 128;
        config.completion_entries = 1024;
        config.buffer_count = 16;
        return config;
    }

    [[nodiscard]] scheduler& native() noexcept { return native_; }
    [[nodiscard]] bool on_this_thread() const noexcept {
        return thread_ == std::this_thread::get_id();
    }
    // That whose turn is on this thread's stack, or null.
    [[nodiscard]] static hosted_scheduler* current() noexcept { return here; }

    // Delivers what is there and announces the sleep in the foreign loop. Within itself it does
    // nothing: the turn under way takes along what there is.
    void turn() {
        if (inside_) return;
        move_here();
        const inside guard(*this);
        coming_ = false;
        unsigned round = 0;
        do {
            native_.io().unpark();
            native_.poll();
            native_.run_native();
            native_.run_host();
        } while (++round < rounds_max && (has_work() || !park()));
        if (round == rounds_max && (has_work() || !park())) {
            coming_ = true;
            hooks_.call_again(hooks_);
        }
        const std::int64_t deadline_ns = native_.next_deadline_ns();
        if (deadline_ns < armed_ns_) {
            armed_ns_ = deadline_ns;
            hooks_.arm(hooks_, deadline_ns);
        }
    }
    // The host's timer has fired, or was taken away.
    void disarmed() noexcept { armed_ns_ = no_deadline; }

    // On the loop's thread: goes on with a coroutine of this scheduler's.
    void resume(std::coroutine_handle<> handle) {
        const scheduler::entry inside_now(native_);  // nobody needs to be told
        native_.schedule(handle);
        turn();
    }
    // A turn will come, soon, if none is under way.
    void turn_later() noexcept {
        if (inside_ || coming_) return;
        coming_ = true;
        hooks_.call_again(hooks_);
    }
    // Calls `start`, which posts here; then a turn. No wake-up is written to the ring for that.
    template <class Start>
    void start_here(Start start) {
        if (!inside_) native_.io().unpark();
        start();
        turn();
    }

    // The foreign loop stays alive from keep() to the matching let_go().
    void keep() noexcept {
        if (kept_++ == 0) hooks_.watch(hooks_, true);
    }
    void let_go() noexcept {
        if (--kept_ == 0) hooks_.watch(hooks_, false);
    }

    // Tasks of this scheduler that the host owns.
    struct job : ringloop::detail::crossing::listener {
        explicit job(function when_ended) noexcept : listener(when_ended) {}
        virtual ~job() = default;
        job(const job&) = delete;
        job& operator=(const job&) = delete;
        std::stop_source source;
        job* previous = nullptr;
        job* next = nullptr;
    };
    void link(job& started) noexcept {
        started.next = first_;
        if (first_ != nullptr) first_->previous = &started;
        first_ = &started;
        keep();
    }
    void unlink(job& ended) noexcept {
        if (ended.next != nullptr) ended.next->previous = ended.previous;
        (ended.previous != nullptr ? ended.previous->next : first_) = ended.next;
        let_go();
    }
    [[nodiscard]] bool idle() const noexcept { return first_ == nullptr; }

    void stop_all() noexcept {
        const scheduler::entry inside_now(native_);
        for (job* each = first_; each != nullptr;) {
            job* const next = each->next;  // a stop resumes nobody
            each->source.request_stop();
            each = next;
        }
        if (first_ != nullptr) turn_later();
    }
    // Asks all tasks to stop and waits, on this scheduler alone, until they have ended.
    void end_all() noexcept {
        if (first_ == nullptr) return;
        stop_all();
        native_.io().unpark();
        while (true) {
            native_.run_native();
            native_.run_host();
            if (first_ == nullptr) break;
            native_.wait(no_deadline);
        }
        native_.run_native();  // a stop request that was still on its way
    }

  private:
    static constexpr unsigned rounds_max = 16;  // of one turn, before the loop gets its thread back
    struct inside {
        explicit inside(hosted_scheduler& self) noexcept
            : previous(std::exchange(here, &self)), owner(self) {
            owner.inside_ = true;
        }
        ~inside() {
            owner.inside_ = false;
            here = previous;
        }
        inside(const inside&) = delete;
        inside& operator=(const inside&) = delete;
        hosted_scheduler* previous;
        hosted_scheduler& owner;
    };

    // An event was set, a channel written to, outside of a turn.
    static void became_ready(ready_notice& self) noexcept {
        static_cast<hosted_scheduler&>(self).turn_later();
    }
    [[nodiscard]] bool has_work() const noexcept {
        return native_.has_native_work() || native_.has_host_work();
    }
    [[nodiscard]] bool park() noexcept {
        wait_request request;
        request.has_work = [](void* self) noexcept {
            return static_cast<hosted_scheduler*>(self)->has_work();
        };
        request.context = this;
        return native_.io().park(request);
    }
    void move_here() {
        if (on_this_thread()) return;
        if (!native_.io().adopt_thread())
            throw std::logic_error(
                "ringloop: the foreign loop has moved to another thread while a hosted task's "
                "operation was in flight that cannot move: run the loop on one thread");
        thread_ = std::this_thread::get_id();
    }

    static inline thread_local hosted_scheduler* here = nullptr;
    scheduler native_;
    host_hooks& hooks_;
    std::thread::id thread_;
    std::int64_t armed_ns_ = no_deadline;
    std::size_t kept_ = 0;
    job* first_ = nullptr;
    bool inside_ = false;
    bool coming_ = false;  // call_again() was asked for
};

// The task<void> of a host's spawn(): what it throws is logged (set_error_log()).
class hosted_task final : public hosted_scheduler::job {
  public:
    // Starts at the host's next turn.
    static void start(hosted_scheduler& host, task<void> work) {
        auto* self = new hosted_task(host, std::move(work));
        host.link(*self);
        host.start_here([&] { self->coroutine_->begin(host.native(), *self); });
    }

  private:
    hosted_task(hosted_scheduler& host, task<void> work) : job(&hosted_task::end), host_(host) {
        coroutine_.emplace(ringloop::detail::cross(host.native(), source.get_token(), nullptr,
                                                   std::move(work), outcome_));
    }
    static void end(listener& ended) noexcept {
        auto* self = static_cast<hosted_task*>(static_cast<job*>(&ended));
        hosted_scheduler& host = self->host_;
        try {
            self->outcome_.take();
        } catch (const operation_cancelled&) {
            if (!self->source.stop_requested())
                ringloop::detail::log_failure(std::current_exception());
        } catch (...) {
            ringloop::detail::log_failure(std::current_exception());
        }
        host.unlink(*self);
        delete self;
    }

    hosted_scheduler& host_;
    result<void> outcome_;
    std::optional<ringloop::detail::crossing> coroutine_;
};

}  // namespace ringloop::interop::detail
