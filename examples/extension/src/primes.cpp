// primes: native coroutines that Python awaits, under any loop.
//
//     import asyncio, primes
//     asyncio.run(primes.count(1_000_000))
#include <pybind11/pybind11.h>

#include <ringloop/python.hpp>
#include <stdexcept>
#include <stop_token>

namespace rl = ringloop;

namespace {

bool is_prime(long number) {
    if (number < 2) return false;
    for (long factor = 2; factor * factor <= number; ++factor)
        if (number % factor == 0) return false;
    return true;
}

// Computes on a thread of its own pool; the loop stays free, and a cancel ends it early.
long count_below(long limit, const std::stop_token& stop) {
    long found = 0;
    for (long number = 2; number < limit && !stop.stop_requested(); ++number)
        found += is_prime(number) ? 1 : 0;
    return found;
}

rl::thread_pool& workers() {
    static rl::thread_pool pool(2);
    return pool;
}

rl::task<long> count(long limit) {
    if (limit < 0) throw std::invalid_argument("count(): the limit is not negative");
    co_return co_await rl::offload(
        workers(), [limit](const std::stop_token& stop) { return count_below(limit, stop); });
}

rl::generator<long> each(long limit) {
    for (long number = 2; number < limit; ++number) {
        if (is_prime(number)) co_yield number;
    }
}

}  // namespace

PYBIND11_MODULE(primes, m) {
    rl::py::def<&count>(m, "count", pybind11::arg("limit"), "How many primes are below limit.");
    rl::py::def<&each>(m, "each", pybind11::arg("limit"), "The primes below limit, one by one.");
}
