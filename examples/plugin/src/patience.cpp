// patience: a native plug-in that calls Python's coroutines, and does so again where they fail.
//
//     await patience.insist(ask_the_bank, order, times=3, pause_s=0.5)
//
// The pause is a timer of the loop's ring. A cancel reaches what runs: the pause, or the coroutine,
// whose end is waited for. What the last attempt raised is raised; what is no Exception (a cancel,
// an exit) at once.
#include <pybind11/pybind11.h>

#include <chrono>
#include <optional>
#include <stdexcept>

#include <ringloop/python.hpp>

namespace rl = ringloop;

namespace {

bool may_be_tried_again(const rl::py::error& raised) {
    const rl::py::gil_scope gil;
    return raised.matches(PyExc_Exception);
}

// The answer of one attempt; none where another one is worth it.
rl::task<std::optional<rl::py::ref>> attempt(const rl::py::function& call, rl::py::ref with,
                                             bool is_last) {
    try {
        co_return co_await call.call<rl::py::ref>(std::move(with));
    } catch (const rl::py::error& raised) {
        if (is_last || !may_be_tried_again(raised)) throw;
    }
    co_return std::nullopt;
}

rl::task<rl::py::ref> insist(rl::py::function call, rl::py::ref with, long times, double pause_s) {
    if (times < 1) throw std::invalid_argument("insist(): at least once");
    const auto pause = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(pause_s));
    for (long left = times - 1;; --left) {
        co_await rl::py::hold_gil();
        auto answer = co_await attempt(call, with.share(), left == 0);
        if (answer) co_return std::move(*answer);
        co_await rl::sleep_for(pause);
    }
}

}  // namespace

PYBIND11_MODULE(patience, m) {
    rl::py::def<&insist>(m, "insist", pybind11::arg("call"), pybind11::arg("argument"),
                         pybind11::arg("times") = 3, pybind11::arg("pause_s") = 0.1,
                         "The answer of call(argument), which is tried so many times.");
}
