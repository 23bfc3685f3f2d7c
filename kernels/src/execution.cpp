// The process-wide account of compute time: one relaxed atomic, two clock reads a scope.
#include "ringloop/kernels/execution.hpp"

#include <atomic>
#include <ctime>

namespace ringloop::kernels {
namespace {

std::atomic<std::int64_t> total_ns{0};

std::int64_t thread_cpu_ns() noexcept {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

}  // namespace

std::int64_t compute_ns_total() noexcept {
    return total_ns.load(std::memory_order_relaxed);
}

compute_scope::compute_scope() noexcept : begin_ns_(thread_cpu_ns()) {}

compute_scope::~compute_scope() {
    total_ns.fetch_add(thread_cpu_ns() - begin_ns_, std::memory_order_relaxed);
}

}  // namespace ringloop::kernels
