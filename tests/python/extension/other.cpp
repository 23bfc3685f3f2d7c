// bridge_other: a second extension module in the same process, by somebody else.
#include <chrono>
#include <ringloop/python.hpp>
#include <string>

namespace {

ringloop::task<std::string> pass_on(ringloop::py::ref thing) {
    co_await ringloop::sleep_for(std::chrono::milliseconds(1));
    const ringloop::py::ref answer = co_await ringloop::py::await(std::move(thing));
    co_return "passed on: " + ringloop::py::convert<std::string>::from(answer.get());
}

}  // namespace

PYBIND11_MODULE(bridge_other, m) {
    ringloop::py::def<&pass_on>(m, "pass_on");
}
