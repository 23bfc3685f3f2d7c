// use_task, use_task_as_tuple: completion tokens. What an asynchronous operation of Asio's returns
// is a task<T>: lazy, awaited once, under with_timeout(), in groups, like any other.
//
//     std::size_t n = co_await socket.async_read_some(asio::buffer(b), use_task);
//     auto [ec, m]  = co_await socket.async_read_some(asio::buffer(b), use_task_as_tuple);
//
// Value: what the operation hands to its handler, without a leading error_code or exception_ptr;
// several are a tuple. use_task throws these: an error_code as asio::system_error (with standalone
// Asio that is also a ringloop::error), use_task_as_tuple returns them as they came.
// Thread: the awaiting task's is its scheduler's. The operation is begun on its executor (at once
// where that is this thread, else by a hop), and so the I/O object is never used by two threads at
// once, provided that its executor is run by one thread or is a strand.
// Lifetime: I/O object and buffers live until the await ends; it ends only after the handler was
// called, or destroyed with its io_context: then it throws ringloop::error (operation_canceled).
// Cancel: a stop is passed on through the operation's cancellation slot, with all types, and its
// end awaited; use_task then throws operation_cancelled, or returns a result that was faster.
// Before it has begun: operation_cancelled with either token, and the operation is not started.
#pragma once

#include <atomic>
#include <coroutine>
#include <exception>
#include <optional>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"
#include "ringloop/inbox.hpp"
#include "ringloop/interop/detail/asio_config.hpp"
#include "ringloop/interop/detail/hosted_scheduler.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

struct use_task_t {};
struct use_task_as_tuple_t {};
inline constexpr use_task_t use_task{};
inline constexpr use_task_as_tuple_t use_task_as_tuple{};

namespace interop::inline RINGLOOP_ASIO_NAMESPACE {
namespace detail {

[[noreturn]] inline void throw_asio(const asio_error_code& code) {
#if defined(RINGLOOP_ASIO_BOOST)
    throw asio_system_error(code, "asio");
#else
    throw ringloop::error(code, "asio");
#endif
}

[[nodiscard]] inline bool is_aborted(const std::exception_ptr& failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const asio_system_error& thrown) {
        return thrown.code() == asio::error::operation_aborted;
    } catch (...) {
        return false;
    }
}

// What a token makes of a handler's arguments, in the awaiting task.
template <class... Args>
struct arguments {
    using value_type = std::tuple<Args...>;
    static value_type open(std::tuple<Args...>&& all, bool /*stopped*/) { return std::move(all); }
};
template <>
struct arguments<> {
    using value_type = void;
    static void open(std::tuple<>&& /*all*/, bool /*stopped*/) noexcept {}
};
template <class T>
struct arguments<T> {
    using value_type = T;
    static T open(std::tuple<T>&& all, bool /*stopped*/) { return std::get<0>(std::move(all)); }
};
template <class... Args>
struct without_error : arguments<Args...> {};
template <class... Rest>
struct without_error<asio_error_code, Rest...> {
    using value_type = typename arguments<Rest...>::value_type;
    static value_type open(std::tuple<asio_error_code, Rest...>&& all, bool stopped) {
        const asio_error_code& code = std::get<0>(all);
        if (code) {
            if (stopped && code == asio::error::operation_aborted) throw operation_cancelled();
            throw_asio(code);
        }
        return rest(std::move(all), std::index_sequence_for<Rest...>());
    }
    template <std::size_t... I>
    static value_type rest(std::tuple<asio_error_code, Rest...>&& all, std::index_sequence<I...>) {
        return arguments<Rest...>::open(std::tuple<Rest...>(std::get<I + 1>(std::move(all))...),
                                        false);
    }
};
template <class... Rest>
struct without_error<std::exception_ptr, Rest...> {
    using value_type = typename arguments<Rest...>::value_type;
    static value_type open(std::tuple<std::exception_ptr, Rest...>&& all, bool stopped) {
        if (const std::exception_ptr& failure = std::get<0>(all)) {
            if (stopped && is_aborted(failure)) throw operation_cancelled();
            std::rethrow_exception(failure);
        }
        return rest(std::move(all), std::index_sequence_for<Rest...>());
    }
    template <std::size_t... I>
    static value_type rest(std::tuple<std::exception_ptr, Rest...>&& all,
                           std::index_sequence<I...>) {
        return arguments<Rest...>::open(std::tuple<Rest...>(std::get<I + 1>(std::move(all))...),
                                        false);
    }
};

// The executor of the I/O object that an operation belongs to. Token adapters of older Asios hide
// it in the initiation that they wrap.
template <class Initiation>
[[nodiscard]] auto executor_of(const Initiation& initiation) noexcept {
    if constexpr (
        !requires { initiation.get_executor(); } && requires { initiation.initiation_; }) {
        return executor_of(initiation.initiation_);
    } else {
        return asio::get_associated_executor(initiation);
    }
}

// Whether `executor` is an io_context's that runs on this thread: what is begun by it may be begun
// here and now.
template <class Executor>
[[nodiscard]] bool runs_here(const Executor& executor) noexcept {
    if constexpr (std::is_same_v<Executor, asio::any_io_executor>) {
        using plain = asio::io_context::executor_type;
        return executor.target_type() == typeid(plain) &&
               executor.template target<plain>()->running_in_this_thread();
    } else if constexpr (requires { executor.running_in_this_thread(); }) {
        return executor.running_in_this_thread();
    } else {
        return std::is_same_v<Executor, asio::system_executor>;
    }
}

// One operation under way. It lives in a coroutine's frame, and is resumed when its parts have
// ended: its beginning, its handler, and the delivery of a stop, each on the operation's executor.
template <class Executor, class... Args>
class asio_wait : private posted, private stop_waiter {
  public:
    // Calls `begin(handler)`, which starts the operation, on `executor`.
    explicit asio_wait(const Executor& executor) noexcept
        : posted(&asio_wait::arrive), stop_waiter(&asio_wait::ask_to_stop), executor_(executor) {}

    class handler {
      public:
        using cancellation_slot_type = asio::cancellation_slot;
        explicit handler(asio_wait& wait) noexcept : wait_(&wait) {}
        handler(handler&& other) noexcept : wait_(std::exchange(other.wait_, nullptr)) {}
        handler& operator=(handler&&) = delete;
        ~handler() {
            if (wait_ != nullptr) wait_->abandoned();
        }
        [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept {
            return wait_->signal_.slot();
        }
        template <class... Given>
        void operator()(Given&&... given) {
            std::exchange(wait_, nullptr)->finish(std::forward<Given>(given)...);
        }

      private:
        asio_wait* wait_;
    };

    // True: it has begun, and `waiting` is resumed at its end. False: it has ended already.
    template <class Begin>
    bool start(std::coroutine_handle<> waiting, stop_scope* scope, Begin& begin) {
        scope_ = scope;
        waiting_ = waiting;
        home_ = &ringloop::detail::running_scheduler();
        host_ = interop::detail::hosted_scheduler::current();
        if (host_ != nullptr && &host_->native() != home_) host_ = nullptr;
        home_->note_wait(scope);
        if (scope != nullptr) scope->add(*this);
        if (runs_here(executor_)) {
            begin_here(begin);
            if (!end_part()) return suspended();
            unlink();
            return false;
        }
        asio::dispatch(executor_, [part = journey(*this, &asio_wait::not_begun), &begin]() mutable {
            asio_wait& self = part.arrived();
            if (self.stopping_.load(std::memory_order_acquire)) {
                self.failure_ = std::make_exception_ptr(operation_cancelled());
                self.not_begun();
                return;
            }
            self.begin_here(begin);
            if (self.end_part()) self.come_back();
        });
        return suspended();
    }

    // After the end, on the scheduler's thread: the handler's arguments.
    [[nodiscard]] std::tuple<Args...> take() {
        if (failure_) std::rethrow_exception(failure_);
        return std::move(*arguments_);
    }
    [[nodiscard]] bool stopped() const noexcept {
        return scope_ != nullptr && scope_->stop_requested();
    }

  private:
    bool suspended() noexcept {
        home_->hold();  // not too late: who comes back is seen by this thread's next turn
        return true;
    }
    template <class Begin>
    void begin_here(Begin& begin) noexcept {
        try {
            begin(handler(*this));
        } catch (...) {
            failure_ = std::current_exception();  // the handler is gone, and ended its part
        }
    }
    template <class... Given>
    void finish(Given&&... given) noexcept {
        try {
            arguments_.emplace(std::forward<Given>(given)...);
        } catch (...) {
            failure_ = std::current_exception();
        }
        ended_.store(true, std::memory_order_release);
        if (end_part()) come_back();
    }
    // A part on its way to the executor, which may be destroyed before it arrives.
    class journey {
      public:
        journey(asio_wait& wait, void (asio_wait::*when_lost)() noexcept) noexcept
            : wait_(&wait), when_lost_(when_lost) {}
        journey(journey&& other) noexcept
            : wait_(std::exchange(other.wait_, nullptr)), when_lost_(other.when_lost_) {}
        journey& operator=(journey&&) = delete;
        ~journey() {
            if (wait_ != nullptr) (wait_->*when_lost_)();
        }
        asio_wait& arrived() noexcept { return *std::exchange(wait_, nullptr); }

      private:
        asio_wait* wait_;
        void (asio_wait::*when_lost_)() noexcept;
    };

    // The handler was destroyed uncalled.
    void abandoned() noexcept {
        lose();
        ended_.store(true, std::memory_order_release);
        if (end_part()) come_back();
    }
    void not_begun() noexcept {
        if (!failure_) lose();
        static_cast<void>(end_part());  // there will be no handler
        not_delivered();
    }
    void not_delivered() noexcept {
        if (end_part()) come_back();
    }
    void lose() noexcept {
        failure_ = std::make_exception_ptr(
            ringloop::error(std::make_error_code(std::errc::operation_canceled),
                            "asio: the operation was destroyed with its io_context"));
    }

    // True for who was the last. After a false this object may be gone.
    [[nodiscard]] bool end_part() noexcept {
        return parts_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }
    [[nodiscard]] bool add_part() noexcept {
        unsigned now = parts_.load(std::memory_order_relaxed);
        while (now != 0)
            if (parts_.compare_exchange_weak(now, now + 1, std::memory_order_relaxed)) return true;
        return false;
    }
    void come_back() noexcept {
        if (host_ != nullptr && host_->on_this_thread()) {
            unlink();
            home_->release();
            host_->resume(waiting_);
        } else if (scheduler::current() == home_) {
            arrive(*this);
        } else {
            home_->post(*this);
        }
    }
    static void arrive(posted& node) noexcept {
        auto& self = static_cast<asio_wait&>(node);
        self.unlink();
        self.home_->release();
        self.home_->schedule(self.waiting_);
    }

    static void ask_to_stop(stop_waiter& waiter) noexcept {
        auto& self = static_cast<asio_wait&>(waiter);
        if (!self.add_part()) return;  // it has ended, and is on its way home
        self.stopping_.store(true, std::memory_order_release);
        if (runs_here(self.executor_)) {
            if (self.emit()) arrive(self);  // a stop resumes nobody by itself
        } else {
            asio::dispatch(self.executor_,
                           [part = journey(self, &asio_wait::not_delivered)]() mutable {
                               asio_wait& there = part.arrived();
                               if (there.emit()) there.come_back();
                           });
        }
    }
    [[nodiscard]] bool emit() noexcept {
        if (!ended_.load(std::memory_order_acquire)) signal_.emit(asio::cancellation_type::all);
        return end_part();
    }

    Executor executor_;
    asio::cancellation_signal signal_;
    std::optional<std::tuple<Args...>> arguments_;
    std::exception_ptr failure_;
    scheduler* home_ = nullptr;
    interop::detail::hosted_scheduler* host_ = nullptr;  // of `home_`, where there is one
    stop_scope* scope_ = nullptr;
    std::coroutine_handle<> waiting_;
    std::atomic<unsigned> parts_{2};
    std::atomic<bool> stopping_{false};
    std::atomic<bool> ended_{false};  // the handler is gone
};

template <class Wait, class Begin>
struct asio_await {
    Wait& wait;
    Begin& begin;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        stop_scope* scope = ringloop::detail::scope_of(handle);
        if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
        return wait.start(handle, scope, begin);
    }
    void await_resume() const noexcept {}
};

// Opens the arguments by `Open`, without_error or arguments.
template <class Open, class... Args>
struct task_result {
    using return_type = task<typename Open::value_type>;

    template <class Initiation, class Token, class... InitArgs>
    static return_type initiate(Initiation initiation, Token, InitArgs... args) {
        using wait_type = asio_wait<decltype(executor_of(initiation)), Args...>;
        wait_type wait(executor_of(initiation));
        auto begin = [&](typename wait_type::handler handler) {
            std::move(initiation)(std::move(handler), std::move(args)...);
        };
        co_await asio_await<wait_type, decltype(begin)>{wait, begin};
        co_return Open::open(wait.take(), wait.stopped());
    }
};

}  // namespace detail
}  // namespace interop::inline RINGLOOP_ASIO_NAMESPACE
}  // namespace ringloop

RINGLOOP_ASIO_BEGIN
template <class R, class... Args>
class async_result<ringloop::use_task_t, R(Args...)>
    : public ringloop::interop::RINGLOOP_ASIO_NAMESPACE::detail::task_result<
          ringloop::interop::RINGLOOP_ASIO_NAMESPACE::detail::without_error<std::decay_t<Args>...>,
          std::decay_t<Args>...> {};
template <class R, class... Args>
class async_result<ringloop::use_task_as_tuple_t, R(Args...)>
    : public ringloop::interop::RINGLOOP_ASIO_NAMESPACE::detail::task_result<
          ringloop::interop::RINGLOOP_ASIO_NAMESPACE::detail::arguments<std::decay_t<Args>...>,
          std::decay_t<Args>...> {};
RINGLOOP_ASIO_END
