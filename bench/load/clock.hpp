// The clock of both load clients. Thread: any.
#pragma once

#include <cstdint>
#include <ctime>

namespace load {

[[nodiscard]] inline std::int64_t now_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace load
