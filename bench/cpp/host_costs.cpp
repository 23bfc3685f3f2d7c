// host_costs: what it costs native code to await a coroutine of Python's, in a program that hosts
// Python. Prints JSON: the p50 of each kind, in nanoseconds, one list of rounds each; the kinds
// take turns.
//
//     host_costs [ROUNDS]
//
// same: on the loop's thread. other: on another scheduler's. bridge: asyncio's own way between
// threads, run_coroutine_threadsafe(…).result() in a thread of Python's, to the same loop; stock:
// the same to a loop of asyncio's in another thread. _sleeps: the coroutine yields once, and does
// not return at once.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <ringloop/python.hpp>

#include "print_rounds.hpp"

namespace {

namespace rl = ringloop;
namespace py = ringloop::py;

constexpr std::size_t awaits = 2000;

const char* const helper_text = R"(
import asyncio, threading, time

async def answers():
    return 42

async def sleeps():
    await asyncio.sleep(0)
    return 42

def bridged(loop, function, count):
    clock, took = time.perf_counter_ns, []
    for _ in range(count):
        begin = clock()
        asyncio.run_coroutine_threadsafe(function(), loop).result()
        took.append(clock() - begin)
    return took

async def bridge(function, count):
    loop = asyncio.get_running_loop()
    return await loop.run_in_executor(None, bridged, loop, function, count)

async def stock(function, count):
    there = asyncio.SelectorEventLoop()
    thread = threading.Thread(target=there.run_forever)
    thread.start()
    try:
        return await asyncio.get_running_loop().run_in_executor(
            None, bridged, there, function, count)
    finally:
        there.call_soon_threadsafe(there.stop)
        thread.join()
        there.close()
)";

double p50(std::vector<long> took) {
    const auto middle = took.begin() + static_cast<std::ptrdiff_t>(took.size() / 2);
    std::nth_element(took.begin(), middle, took.end());
    return static_cast<double>(*middle);
}

rl::task<double> native_awaits(py::object function, py::loop where) {
    std::vector<long> took;
    for (std::size_t i = 0; i < awaits; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        const int answer = co_await py::await<int>(function(), where);
        took.push_back(std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
        if (answer != 42) std::abort();
    }
    co_return p50(std::move(took));
}

rl::task<double> pythons_awaits(py::object helper, const char* way, py::object function) {
    co_return p50(co_await py::await<std::vector<long>>(helper.call(way, function, awaits)));
}

// The coroutine, and what its measurements are called.
struct kind {
    const char *function, *same, *other, *bridge, *stock;
};
constexpr kind kinds[] = {
    {"answers", "same", "other", "bridge", "stock"},
    {"sleeps", "same_sleeps", "other_sleeps", "bridge_sleeps", "stock_sleeps"}};

rl::task<void> measure(py::interpreter& python, int rounds, bench::rounds_by_kind& found) {
    const py::object helper = python.exec("helper", helper_text);
    rl::scheduler_pool pool({.threads = 1, .placed = false});
    for (int round = 0; round < rounds; ++round) {
        for (const auto& [answering, same, other, bridge, stock] : kinds) {
            const py::object function = helper.attr(answering);
            const double same_ns = co_await native_awaits(function, py::loop());
            const double other_ns = co_await rl::on(pool[0], native_awaits(function, py::loop()));
            const double bridge_ns = co_await pythons_awaits(helper, "bridge", function);
            const double stock_ns = co_await pythons_awaits(helper, "stock", function);
            found[same].push_back(same_ns);
            found[other].push_back(other_ns);
            found[bridge].push_back(bridge_ns);
            found[stock].push_back(stock_ns);
        }
    }
}

}  // namespace

int main(int count, char** words) {
    const int rounds = count > 1 ? std::atoi(words[1]) : 9;
    bench::rounds_by_kind found;
    const int code = py::run(
        [rounds, &found](py::interpreter& python) { return measure(python, rounds, found); });
    bench::print_rounds(found);
    return code;
}
