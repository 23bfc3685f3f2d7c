// host: a native program that owns the data, and has Python do something to it.
//
//     host lent           the logic is in the program; Python sees its memory (py::lend)
//     host marshalled     the same, and what crosses is serialised: each way, each element
//     host hybrid         as the first, but the logic is a module that the program's scripts load
//
// Each line on stdin, "multiply SIZE", "blur HEIGHT" or "totals COUNT", is done once; the answer is
// how long that took, in nanoseconds, and a sum of the result. scripts/loaded.py does the same for
// a program of Python's.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ringloop/python.hpp>

PyMODINIT_FUNC PyInit_logic();

namespace rl = ringloop;
namespace py = ringloop::py;

namespace {

template <class T>
using shared = std::shared_ptr<std::vector<T>>;

// The program's data, as loaded.py has it; made once for each size.
template <class T>
shared<T> numbers(std::size_t count) {
    static std::map<std::size_t, shared<T>> known;
    shared<T>& all = known[count];
    if (all) return all;
    all = std::make_shared<std::vector<T>>(count);
    for (std::size_t i = 0; i < count; ++i) (*all)[i] = static_cast<T>(i % 251);
    return all;
}
using text = std::shared_ptr<const std::string>;
text records(std::size_t count) {
    static std::map<std::size_t, text> known;
    if (known[count]) return known[count];
    std::string all = "[";
    for (std::size_t i = 0; i < count; ++i) {
        char one[160];
        std::snprintf(one, sizeof one,
                      R"(%s{"id": %zu, "name": "item %zu", "category": "c%zu", "price": %.2f, )"
                      R"("count": %zu})",
                      i == 0 ? "" : ", ", i, i, i % 17, static_cast<double>(i % 997) / 4, i % 5);
        all += one;
    }
    return known[count] = std::make_shared<const std::string>(all + "]");
}

template <class Values>
double sum_of(const Values& values) {
    return std::accumulate(values.begin(), values.end(), 0.0);
}
double sum_of(const std::map<std::string, double>& totals) {
    double sum = 0;
    for (const auto& [category, total] : totals) sum += total;
    return sum;
}

class stopwatch {
  public:
    [[nodiscard]] long long ns() const {
        return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin_).count();
    }

  private:
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

struct answer {
    long long ns;
    double sum;
};

// Python works on this program's memory, and this program reads Python's.
class lent {
  public:
    explicit lent(py::interpreter& python) : work_(python.import("work")) {}

    rl::task<answer> multiply(std::size_t size) {
        const auto a = numbers<float>(size * size), b = numbers<float>(size * size);
        const stopwatch watch;
        const auto product = co_await py::await<py::buffer<const float>>(
            work_.call("multiply", py::lend(a, size, size), py::lend(b, size, size)));
        co_return answer{watch.ns(), sum_of(product.span())};
    }
    rl::task<answer> blur(std::size_t height) {
        const std::size_t width = height * 16 / 9 * 3;
        const auto frame = numbers<std::uint8_t>(height * width);
        const stopwatch watch;
        const auto blurred = co_await py::await<py::buffer<const std::uint8_t>>(
            work_.call("blur", py::lend(frame, height, width)));
        co_return answer{watch.ns(), sum_of(blurred.span())};
    }
    rl::task<answer> totals(std::size_t count) {
        const text document = records(count);
        const stopwatch watch;
        const py::object parsed = work_.call("parse", py::lend(document));
        const auto all = work_.call("totals", parsed).as<std::map<std::string, double>>();
        co_return answer{watch.ns(), sum_of(all)};
    }

  private:
    py::object work_;
};

// What crosses is a string of the marshal module's, made of Python objects, made of numbers.
class marshalled {
  public:
    explicit marshalled(py::interpreter& python)
        : work_(python.import("work")), marshal_(python.import("marshal")) {}

    rl::task<answer> multiply(std::size_t size) {
        const auto a = numbers<float>(size * size), b = numbers<float>(size * size);
        const stopwatch watch;
        const py::object product =
            co_await py::await<py::object>(work_.call("multiply_values", dumps(*a), dumps(*b)));
        const auto values = loads(product).as<std::vector<float>>();
        co_return answer{watch.ns(), sum_of(values)};
    }
    rl::task<answer> blur(std::size_t height) {
        const std::size_t width = height * 16 / 9 * 3;
        const auto frame = numbers<std::uint8_t>(height * width);
        const stopwatch watch;
        const py::object blurred =
            co_await py::await<py::object>(work_.call("blur_values", dumps(*frame), width));
        const auto values = loads(blurred).as<std::vector<std::uint8_t>>();
        co_return answer{watch.ns(), sum_of(values)};
    }
    // The records come over, and go back to be added up.
    rl::task<answer> totals(std::size_t count) {
        const text document = records(count);
        const stopwatch watch;
        const py::object parsed = loads(work_.call("parse_values", dumps(*document)));
        const auto all =
            loads(work_.call("totals_values", dumps(parsed))).as<std::map<std::string, double>>();
        co_return answer{watch.ns(), sum_of(all)};
    }

  private:
    template <class T>
    [[nodiscard]] py::object dumps(const T& values) const {
        return marshal_.call("dumps", values);
    }
    [[nodiscard]] py::object loads(const py::object& packed) const {
        return marshal_.call("loads", packed);
    }
    py::object work_, marshal_;
};

template <class Way>
rl::task<answer> begin(Way& way, const std::string& what, std::size_t size) {
    if (what == "multiply") return way.multiply(size);
    if (what == "blur") return way.blur(size);
    if (what == "totals") return way.totals(size);
    throw std::invalid_argument("multiply, blur or totals, not " + what);
}

template <class Way>
rl::task<void> answer_lines(py::interpreter& python) {
    Way way(python);
    std::string what;
    std::size_t size = 0;
    while (std::cin >> what >> size) {
        const answer made = co_await begin(way, what, size);
        std::printf("%lld %.1f\n", made.ns, made.sum);
        std::fflush(stdout);
    }
}

}  // namespace

int main(int count, char** words) try {
    const std::string way = count == 2 ? words[1] : "";
    if (way != "lent" && way != "marshalled" && way != "hybrid")
        throw std::invalid_argument("usage: host lent|marshalled|hybrid");
    py::run_options options;
    options.search_path = {SCRIPTS};
    if (way == "hybrid")
        options.search_path.emplace_back(MODULES);
    else
        PyImport_AppendInittab("logic", &PyInit_logic);  // before Python begins
    return way == "marshalled" ? py::run(answer_lines<marshalled>, options)
                               : py::run(answer_lines<lent>, options);
} catch (const py::error& raised) {
    std::cerr << raised.formatted();
    return 1;
} catch (const std::exception& failure) {
    std::cerr << "host: " << failure.what() << '\n';
    return 1;
}
