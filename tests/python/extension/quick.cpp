// bridge_quick: the functions that tests export by py::fast.
#include <cstdint>
#include <numeric>
#include <ringloop/python.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace rl = ringloop;

namespace {

double sum(std::span<const double> values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}
double sum_released(std::span<const double> values) {
    return sum(values);
}
void fill(std::span<std::byte> into, std::uint8_t with) {
    for (std::byte& each : into) each = std::byte{with};
}
std::int8_t small(std::int8_t value) noexcept {
    return value;
}
std::uint64_t large(std::uint64_t value) {
    return value;
}
bool negate(bool value) {
    return !value;
}
std::string greet(std::string_view whom) {
    if (whom.empty()) throw std::invalid_argument("nobody to greet");
    return "hello " + std::string(whom);
}
rl::py::bytes turned(rl::py::bytes given) {
    return rl::py::bytes(std::string(given.data.rbegin(), given.data.rend()));
}
rl::py::ref same(rl::py::ref object) {
    return object;
}
bool is_none(rl::py::borrow object) {
    return object.get() == Py_None;
}
rl::task<long> later(long value) {
    if (value < 0) throw std::out_of_range("negative");
    co_await rl::yield();
    co_return value;
}
rl::task<void> nothing() {
    co_return;
}

rl::py::outcome<std::string> perhaps(std::string_view text, bool known) {
    if (text.empty()) throw std::invalid_argument("nothing given");
    if (known) return std::string(text);
    return [](std::string kept) -> rl::task<std::string> {
        co_await rl::yield();
        co_return kept;
    }(std::string(text));
}
rl::py::outcome<void> perhaps_nothing(bool known) {
    if (known) return {};
    return nothing();
}

// Runs Python code by itself, at the call or at the await.
std::string described(rl::py::borrow object) {
    const auto text = rl::py::ref::steal(PyObject_Str(object.get()));
    if (!text) throw rl::py::error::take();
    return PyUnicode_AsUTF8(text.get());
}
rl::task<std::string> described_later(rl::py::ref object) {
    return [](std::string text) -> rl::task<std::string> {
        co_return text;
    }(described(rl::py::borrow(object.get())));
}

template <auto Function, rl::py::gil Policy = rl::py::gil::hold>
void add(pybind11::module_& m, const char* name) {
    if (rl::py::fast<Function, Policy>(m.ptr(), name) < 0) throw pybind11::error_already_set();
}

}  // namespace

PYBIND11_MODULE(bridge_quick, m) {
    add<&sum>(m, "sum");
    add<&sum_released, rl::py::gil::release>(m, "sum_released");
    add<&fill>(m, "fill");
    add<&small>(m, "small");
    add<&large>(m, "large");
    add<&negate>(m, "negate");
    add<&greet>(m, "greet");
    add<&turned>(m, "turned");
    add<&same>(m, "same");
    add<&is_none>(m, "is_none");
    add<&later>(m, "later");
    add<&nothing>(m, "nothing");
    add<&perhaps>(m, "perhaps");
    add<&described>(m, "described");
    add<&described_later>(m, "described_later");
    add<&perhaps_nothing>(m, "perhaps_nothing");
    rl::py::def<&perhaps>(m, "perhaps_by_def");
}
