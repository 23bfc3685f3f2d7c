// result<T>: the value or the exception that a coroutine ended with. T may be void or a reference.
//
// Written once, taken once. Not for several threads.
#pragma once

#include <cassert>
#include <exception>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

namespace ringloop {

template <class T>
class result {
    using stored = std::conditional_t<std::is_reference_v<T>,
                                      std::reference_wrapper<std::remove_reference_t<T>>, T>;

  public:
    result() noexcept {}
    ~result() {
        if (state_ == state::value) std::destroy_at(std::addressof(value_));
        if (state_ == state::error) std::destroy_at(std::addressof(error_));
    }
    result(const result&) = delete;
    result& operator=(const result&) = delete;

    template <class U>
    void set_value(U&& value) {
        std::construct_at(std::addressof(value_), std::forward<U>(value));
        state_ = state::value;
    }
    void set_error(std::exception_ptr failure) noexcept {
        std::construct_at(std::addressof(error_), std::move(failure));
        state_ = state::error;
    }
    [[nodiscard]] bool has_value() const noexcept { return state_ == state::value; }
    [[nodiscard]] bool has_error() const noexcept { return state_ == state::error; }
    [[nodiscard]] T take() {
        if (state_ == state::error) [[unlikely]]
            std::rethrow_exception(error_);
        assert(state_ == state::value && "the coroutine has not ended");
        if constexpr (std::is_reference_v<T>) {
            return static_cast<T>(value_.get());
        } else {
            return std::move(value_);
        }
    }

  private:
    enum class state : unsigned char { empty, value, error };
    union {
        stored value_;
        std::exception_ptr error_;
    };
    state state_ = state::empty;
};

template <>
class result<void> {
  public:
    void set_error(std::exception_ptr failure) noexcept { error_ = std::move(failure); }
    [[nodiscard]] bool has_error() const noexcept { return error_ != nullptr; }
    void take() {
        if (error_) [[unlikely]]
            std::rethrow_exception(error_);
    }

  private:
    std::exception_ptr error_;
};

}  // namespace ringloop
