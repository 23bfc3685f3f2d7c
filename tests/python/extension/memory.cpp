// bridge_memory: native memory in the account, and what holds Python objects where only the
// collector can find them.
#include <pybind11/stl.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <ringloop/memory.hpp>
#include <ringloop/python.hpp>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace py = pybind11;
namespace rl = ringloop;

namespace {

// ---- memory

std::uint64_t take(std::uint64_t bytes) {
    return reinterpret_cast<std::uintptr_t>(rl::memory::allocate(bytes));
}
void give(std::uint64_t block, std::uint64_t bytes) {
    rl::memory::release(reinterpret_cast<void*>(static_cast<std::uintptr_t>(block)), bytes);
}
std::uint64_t take_without_gil(std::uint64_t bytes) {
    return take(bytes);
}
void give_without_gil(std::uint64_t block, std::uint64_t bytes) {
    give(block, bytes);
}
double mean(std::uint64_t count) {
    const std::vector<double, rl::memory::allocator<double>> samples(count, 2.0);
    double sum = 0;
    for (const double each : samples) sum += each;
    return sum / static_cast<double>(count);
}

// ---- who holds what

rl::task<void> nothing() {
    co_return;
}
rl::task<void> forever() {
    co_await rl::sleep_for(std::chrono::hours(24));
}
rl::task<void> with_one(rl::py::ref) {
    co_return;
}
rl::task<void> with_function(rl::py::function) {
    co_return;
}
rl::task<void> with_many(std::vector<rl::py::ref>) {
    co_return;
}
rl::task<void> with_some(std::optional<rl::py::ref>,
                         std::vector<std::pair<std::string, rl::py::ref>>) {
    co_return;
}
rl::task<rl::py::ref> same(rl::py::ref object) {
    co_return object;
}
// An argument of a class that shows what it holds; a copy of that is elsewhere.
struct copied {
    rl::py::function mine;
    static rl::py::function elsewhere;
    int traverse(visitproc visit, void* arg) const noexcept { return mine.traverse(visit, arg); }
};
rl::py::function copied::elsewhere;
rl::task<void> with_copied(copied) {
    co_return;
}

int ends = 0;

// An argument whose end can be seen.
struct witness {
    witness() = default;
    witness(witness&& other) noexcept : alive(std::exchange(other.alive, false)) {}
    witness& operator=(witness&&) = delete;
    ~witness() {
        if (alive) ++ends;
    }
    bool alive = true;
};
rl::task<void> with_witness(witness seen, rl::py::ref object) {
    static_cast<void>(seen);
    static_cast<void>(object);
    co_return;
}

struct node {
    rl::generator<int> numbers() {
        for (int i = 0; i < 3; ++i) co_yield i;
    }
};

void hold(rl::py::ref object) {
    new rl::py::ref(std::move(object));  // for good
}

template <auto Function, rl::py::gil Policy = rl::py::gil::hold>
void fast(py::module_& m, const char* name) {
    if (rl::py::fast<Function, Policy>(m.ptr(), name) < 0) throw py::error_already_set();
}

}  // namespace

namespace pybind11::detail {

template <>
struct type_caster<witness> {
    PYBIND11_TYPE_CASTER(witness, const_name("None"));
    bool load(handle, bool) { return true; }
};
template <>
struct type_caster<copied> {
    PYBIND11_TYPE_CASTER(copied, const_name("collections.abc.Callable"));
    bool load(handle source, bool) {
        copied::elsewhere = rl::py::function(rl::py::ref::share(source.ptr()));
        value.mine = copied::elsewhere;
        return true;
    }
};

}  // namespace pybind11::detail

PYBIND11_MODULE(bridge_memory, m) {
    fast<&take>(m, "take");
    fast<&give>(m, "give");
    fast<&take_without_gil, rl::py::gil::release>(m, "take_without_gil");
    fast<&give_without_gil, rl::py::gil::release>(m, "give_without_gil");
    fast<&mean>(m, "mean");
    fast<&hold>(m, "hold");
    rl::py::def<&nothing>(m, "nothing");
    rl::py::def<&forever>(m, "forever");
    rl::py::def<&with_one>(m, "with_one");
    rl::py::def<&with_function>(m, "with_function");
    rl::py::def<&with_many>(m, "with_many");
    rl::py::def<&with_some>(m, "with_some");
    rl::py::def<&with_copied>(m, "with_copied");
    m.def("drop_copy", [] { copied::elsewhere = rl::py::function(); });
    rl::py::def<&with_witness>(m, "with_witness");
    rl::py::def<&same>(m, "same");
    m.def("ends", [] { return std::exchange(ends, 0); });
    py::class_<node> n(m, "Node", py::dynamic_attr());
    n.def(py::init<>());
    rl::py::def<&node::numbers>(n, "numbers");
}
