// bridge_bench: what `./dev bench bridge` measures, as an extension module exports it.
#include <numeric>
#include <ringloop/python.hpp>
#include <span>

namespace py = pybind11;
namespace rl = ringloop;

namespace {

rl::task<void> nothing() {
    co_return;
}
rl::task<long> value(long given) {
    co_return given;
}
rl::py::outcome<void> nothing_known() {
    return {};
}
rl::py::outcome<long> value_known(long given) {
    return given;
}
rl::task<void> suspend_once() {
    co_await rl::yield();
}
rl::thread_pool& workers() {
    static auto* const pool = new rl::thread_pool(1);  // its thread outlives the interpreter
    return *pool;
}
rl::task<void> hop() {
    co_await rl::offload(workers(), [] {});
}
// The same steps on whichever thread it is called: about a millisecond a million.
void work(long steps) {
    volatile long done = 0;
    for (long i = 0; i < steps; ++i) done = done + 1;
}
rl::task<void> work_on_workers(long steps) {
    co_await rl::offload([steps] { work(steps); });
}
double sum(std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}

}  // namespace

// For ctypes, by its plain name.
extern "C" [[gnu::visibility("default")]] double sum_plain(const double* values, long count) {
    return std::accumulate(values, values + count, 0.0);
}

PYBIND11_MODULE(bridge_bench, m) {
    if (rl::py::fast<&nothing>(m.ptr(), "nothing") < 0 ||
        rl::py::fast<&value>(m.ptr(), "value") < 0 ||
        rl::py::fast<&nothing_known>(m.ptr(), "nothing_known") < 0 ||
        rl::py::fast<&value_known>(m.ptr(), "value_known") < 0 ||
        rl::py::fast<&suspend_once>(m.ptr(), "suspend_once") < 0 ||
        rl::py::fast<&hop>(m.ptr(), "hop") < 0 || rl::py::fast<&sum>(m.ptr(), "sum_fast") < 0)
        throw py::error_already_set();
    rl::py::def<&nothing>(m, "nothing_pybind11");
    rl::py::def<&work_on_workers>(m, "work_on_workers");
    m.def("work_released", &work, py::call_guard<py::gil_scoped_release>());
    m.def("sum_pybind11", [](const py::buffer& buffer) {
        const py::buffer_info info = buffer.request();
        return sum({static_cast<const double*>(info.ptr), static_cast<std::size_t>(info.size)});
    });
}
