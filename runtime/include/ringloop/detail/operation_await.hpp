// operation_await: base of the awaiters of one-shot operations.
//
// The operation lives in the awaiter, the awaiter in the coroutine's frame; the coroutine goes on
// only after the last completion, so the frame outlives the operation. A stop request cancels the
// operation; a result that was faster is returned. Errors: finish() throws what error.hpp says.
// Thread: the scheduler's.
#pragma once

#include <coroutine>
#include <string>
#include <type_traits>

#include "ringloop/error.hpp"
#include "ringloop/operation.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop::detail {

// An operation that knows its owner.
struct owned_operation : operation {
    owned_operation(handler function, void* its_owner) noexcept
        : operation(function), owner(its_owner) {}
    void* owner;
};

class operation_await : private stop_waiter {
  public:
    operation_await(const operation_await&) = delete;
    operation_await& operator=(const operation_await&) = delete;

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        return start(handle, scope_of(handle));
    }

  protected:
    operation_await() noexcept
        : stop_waiter(&operation_await::ask_to_stop), op_(&operation_await::arrive, this) {}
    ~operation_await() = default;

    // The result, or an exception that names `what`.
    int finish(const char* what) const {
        if (result_ < 0) [[unlikely]]
            fail(what);
        return result_;
    }
    // describe() makes the text; it is asked only if there is a failure to name.
    template <class Describe>
    requires std::is_invocable_r_v<std::string, Describe>
    int finish(Describe describe) const {
        if (result_ < 0) [[unlikely]]
            fail(std::string(describe()).c_str());
        return result_;
    }
    // For who has an answer to one error: the negated errno `expected` is passed through as well.
    int finish_or(int expected, const char* what) const {
        return result_ == -expected ? result_ : finish(what);
    }
    owned_operation op_;

  private:
    bool start(std::coroutine_handle<> handle, stop_scope* scope);
    [[noreturn]] void fail(const char* what) const;
    static void arrive(operation& op, const completion& last) noexcept;
    static void ask_to_stop(stop_waiter& self) noexcept;

    scheduler* home_ = nullptr;
    stop_scope* scope_ = nullptr;
    std::coroutine_handle<> waiting_;
    std::int32_t result_ = 0;
};

// The scheduler that is running this coroutine; throws std::logic_error outside of one.
[[nodiscard]] scheduler& running_scheduler();

}  // namespace ringloop::detail
