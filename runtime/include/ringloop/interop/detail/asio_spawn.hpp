// spawn: a ringloop task as an asynchronous operation of Asio's, with any completion token.
//
//     std::string page = co_await spawn(host, fetch(), asio::use_awaitable);
//     spawn(scheduler, work(), [](std::exception_ptr failure, int value) { … });
//
// Signature: void(std::exception_ptr, T), void(std::exception_ptr) for task<void>; T is default
// constructible. The handler is posted to its executor: without one it is called on the
// io_context's thread for a host, on the scheduler's for a scheduler.
// Thread: begin it from any, for a scheduler, which is running or comes to run; for a host from the
// io_context's.
// Cancel: a signal of the handler's cancellation slot, of any type, stops the task (stop.hpp); a
// task that ended because of that fails with asio::error::operation_aborted.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

#include "ringloop/interop/detail/asio_config.hpp"
#include "ringloop/interop/detail/asio_host.hpp"
#include "ringloop/on.hpp"
#include "ringloop/task.hpp"

namespace ringloop::interop::inline RINGLOOP_ASIO_NAMESPACE {

namespace detail {

template <class T>
struct spawn_signature {
    using type = void(std::exception_ptr, T);
};
template <>
struct spawn_signature<void> {
    using type = void(std::exception_ptr);
};

template <class T, class Handler, class Fallback>
class asio_spawned final : public interop::detail::hosted_scheduler::job {
  public:
    using executor_type = typename asio::associated_executor<Handler, Fallback>::type;

    static void start(scheduler& there, interop::detail::hosted_scheduler* host, task<T> work,
                      Handler handler, const Fallback& fallback) {
        auto* self = new asio_spawned(there, host, std::move(work), std::move(handler), fallback);
        if (host == nullptr) {
            self->coroutine_->begin(there, *self);
            return;
        }
        host->link(*self);
        host->start_here([&] { self->coroutine_->begin(there, *self); });
    }

  private:
    asio_spawned(scheduler& there, interop::detail::hosted_scheduler* host, task<T> work,
                 Handler handler, const Fallback& fallback)
        : job(&asio_spawned::end),
          host_(host),
          work_guard_(asio::get_associated_executor(handler, fallback)),
          handler_(std::move(handler)) {
        coroutine_.emplace(
            ringloop::detail::cross(there, source.get_token(), nullptr, std::move(work), outcome_));
        auto slot = asio::get_associated_cancellation_slot(handler_);
        if (slot.is_connected())
            slot.assign([to_stop = source](asio::cancellation_type type) mutable {
                if (type != asio::cancellation_type::none) to_stop.request_stop();
            });
    }

    // On the scheduler's thread.
    static void end(listener& ended) noexcept {
        auto* self = static_cast<asio_spawned*>(static_cast<job*>(&ended));
        self->coroutine_.reset();
        if (self->host_ != nullptr) self->host_->unlink(*self);
        asio::post(
            self->work_guard_.get_executor(),
            [mine = std::unique_ptr<asio_spawned>(self)]() mutable { complete(std::move(mine)); });
    }
    static void complete(std::unique_ptr<asio_spawned> self) {
        auto slot = asio::get_associated_cancellation_slot(self->handler_);
        if (slot.is_connected()) slot.clear();
        std::exception_ptr failure;
        Handler handler(std::move(self->handler_));
        const auto guard = std::move(self->work_guard_);
        if constexpr (std::is_void_v<T>) {
            try {
                self->outcome_.take();
            } catch (...) {
                failure = self->translated();
            }
            self.reset();
            std::move(handler)(failure);
        } else {
            T value{};
            try {
                value = self->outcome_.take();
            } catch (...) {
                failure = self->translated();
            }
            self.reset();
            std::move(handler)(failure, std::move(value));
        }
    }
    // The exception at hand, as Asio's programs expect it.
    [[nodiscard]] std::exception_ptr translated() const noexcept {
        try {
            throw;
        } catch (const operation_cancelled&) {
            if (source.stop_requested())
                return std::make_exception_ptr(
                    asio_system_error(asio_error_code(asio::error::operation_aborted)));
            return std::current_exception();
        } catch (...) {
            return std::current_exception();
        }
    }

    interop::detail::hosted_scheduler* host_;
    asio::executor_work_guard<executor_type> work_guard_;
    Handler handler_;
    result<T> outcome_;
    std::optional<ringloop::detail::crossing> coroutine_;
};

}  // namespace detail

template <class T, class Token>
auto spawn(scheduler& there, task<T> work, Token&& token) {
    return asio::async_initiate<Token, typename detail::spawn_signature<T>::type>(
        [&there](auto handler, task<T> mine) {
            using handler_type = std::decay_t<decltype(handler)>;
            detail::asio_spawned<T, handler_type, asio::system_executor>::start(
                there, nullptr, std::move(mine), std::move(handler), asio::system_executor());
        },
        token, std::move(work));
}

template <class T, class Token>
auto spawn(asio_host& host, task<T> work, Token&& token) {
    return asio::async_initiate<Token, typename detail::spawn_signature<T>::type>(
        [&host](auto handler, task<T> mine) {
            using handler_type = std::decay_t<decltype(handler)>;
            using fallback = asio::io_context::executor_type;
            detail::asio_spawned<T, handler_type, fallback>::start(
                host.native(), &host.guest(), std::move(mine), std::move(handler),
                host.context().get_executor());
        },
        token, std::move(work));
}

}  // namespace ringloop::interop::inline RINGLOOP_ASIO_NAMESPACE
