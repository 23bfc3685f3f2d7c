// Errors of the runtime: what an awaited operation throws.
//
// A failed operation throws ringloop::error, which carries the system's std::error_code and names
// the operation. An operation ended by a stop request throws operation_cancelled; it is no error
// and is not derived from one, so that a handler of errors does not swallow a stop.
//
// Where failure is part of the plan, members of streams take a std::error_code& as last argument:
// it gets the code (success clears it) and nothing is thrown for it. A stop still throws.
//
// Thread: exceptions and codes are values and go from one to another.
#pragma once

#include <exception>
#include <system_error>

namespace ringloop {

class error : public std::system_error {
  public:
    error(std::error_code code, const char* what) : std::system_error(code, what) {}
};

class operation_cancelled : public std::exception {
  public:
    [[nodiscard]] const char* what() const noexcept override {
        return "ringloop: the operation was cancelled by a stop request";
    }
    [[nodiscard]] std::error_code code() const noexcept {
        return std::make_error_code(std::errc::operation_canceled);
    }
};

// What a task group does with the failures it only logs (on_error::log). Called on the scheduler's
// thread; must not throw. The first handler writes one line to stderr. Returns the previous one.
using error_log = void (*)(std::exception_ptr failure) noexcept;
error_log set_error_log(error_log handler) noexcept;

namespace detail {
[[noreturn]] void throw_error(int error_number, const char* what);
// Passes a result >= 0 through; a negated errno becomes an exception.
inline int checked(int result, const char* what) {
    if (result < 0) [[unlikely]]
        throw_error(-result, what);
    return result;
}
// The same with an error_code twin: with `failure` it gets the code, and 0 is returned.
inline int checked(int result, const char* what, std::error_code* failure) {
    if (result >= 0) [[likely]]
        return result;
    if (failure == nullptr) throw_error(-result, what);
    *failure = std::error_code(-result, std::system_category());
    return 0;
}
void log_failure(std::exception_ptr failure) noexcept;
}  // namespace detail

}  // namespace ringloop
