// Errors of the runtime: throwing, and the log of failures that a group does not pass on.
#include "ringloop/error.hpp"

#include <atomic>
#include <cstdio>

namespace ringloop {
namespace {

void write_to_stderr(std::exception_ptr failure) noexcept {
    try {
        std::rethrow_exception(failure);
    } catch (const std::exception& e) {
        // tidy-allow: banned because a failure nobody asked for must not vanish; replaceable
        std::fprintf(stderr, "ringloop: a task of a group failed: %s\n", e.what());
    } catch (...) {
        // tidy-allow: banned because of the same
        std::fprintf(stderr, "ringloop: a task of a group failed with an unknown exception\n");
    }
}

std::atomic<error_log> log_handler{&write_to_stderr};

}  // namespace

error_log set_error_log(error_log handler) noexcept {
    return log_handler.exchange(handler == nullptr ? &write_to_stderr : handler);
}

void detail::throw_error(int error_number, const char* what) {
    throw error(std::error_code(error_number, std::system_category()), what);
}

void detail::log_failure(std::exception_ptr failure) noexcept {
    log_handler.load()(failure);
}

}  // namespace ringloop
