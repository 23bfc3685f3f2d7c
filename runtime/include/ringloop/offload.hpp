// offload: runs a function on another thread and resumes the awaiting coroutine with its result.
//
//     auto sum = co_await offload([&] { return add_up(numbers); });       // on workers()
//     auto other = co_await offload(pool, [&] { return add_up(numbers); });
//
// `fn` takes no argument, or a std::stop_token that follows the coroutine's scope. What it throws
// is thrown by the await.
// Lifetime: what `fn` refers to must live until the await ends; nothing more, for the await ends
// only after fn has returned.
// Give a lambda that captures owners a name, `co_await offload(std::move(work))`: g++ 12 destroys
// the captures of one that stands in the await itself twice.
// Cancel: an await that has begun waits for fn, which should look at its token now and then; its
// result is returned, nothing is lost. Not yet begun: operation_cancelled, fn does not run.
#pragma once

#include <coroutine>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "ringloop/detail/away.hpp"
#include "ringloop/error.hpp"
#include "ringloop/result.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"
#include "ringloop/thread_pool.hpp"

namespace ringloop {

namespace detail {

template <class Fn>
inline constexpr bool takes_token = std::is_invocable_v<Fn&, std::stop_token>;
template <class Fn, bool = takes_token<Fn>>
struct offload_value {
    using type = std::invoke_result_t<Fn&>;
};
template <class Fn>
struct offload_value<Fn, true> {
    using type = std::invoke_result_t<Fn&, std::stop_token>;
};

// How work gets to threads of `Pool`: `submit(pool, item)` calls item.run once, on one of them.
template <class Pool>
struct pool_door {
    static void submit(Pool& pool, thread_pool::item& work) { pool.submit(work); }
};

template <class Fn, class Pool = thread_pool>
class offload_await : private thread_pool::item, private away {
  public:
    using value_type = typename offload_value<Fn>::type;

    offload_await(Pool& pool, Fn fn)
        : item(&offload_await::on_worker), pool_(pool), fn_(std::move(fn)) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        stop_scope* scope = scope_of(handle);
        if (scope != nullptr && scope->stop_requested()) {
            outcome_.set_error(std::make_exception_ptr(operation_cancelled()));
            return false;
        }
        if constexpr (takes_token<Fn>) {
            if (scope != nullptr) token_ = scope->token();
        }
        leave(handle, [this] { pool_door<Pool>::submit(pool_, *this); });
        return true;
    }
    value_type await_resume() { return outcome_.take(); }

  private:
    static void on_worker(item& work) noexcept {
        auto& self = static_cast<offload_await&>(work);
        try {
            if constexpr (std::is_void_v<value_type>) {
                self.call();
            } else {
                self.outcome_.set_value(self.call());
            }
        } catch (...) {
            self.outcome_.set_error(std::current_exception());
        }
        self.come_back();
    }
    value_type call() {
        if constexpr (takes_token<Fn>) {
            return fn_(token_);
        } else {
            return fn_();
        }
    }

    Pool& pool_;
    Fn fn_;
    std::stop_token token_;
    result<value_type> outcome_;
};

}  // namespace detail

template <class Fn>
[[nodiscard]] detail::offload_await<std::decay_t<Fn>> offload(thread_pool& pool, Fn&& fn) {
    return {pool, std::forward<Fn>(fn)};
}

// On the process's own workers, below the loops' priority: for compute.
template <class Fn>
requires(std::is_invocable_v<std::decay_t<Fn>&> || detail::takes_token<std::decay_t<Fn>>)
    [[nodiscard]] detail::offload_await<std::decay_t<Fn>> offload(Fn&& fn) {
    return {workers(), std::forward<Fn>(fn)};
}

}  // namespace ringloop
