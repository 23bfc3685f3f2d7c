// logic: the native half of scripts/work.py, as a module of Python's. A program that hosts Python
// may have it built in; it is the same file.
//
// Arrays are taken where they are (py::buffer) and computed on by ringloop's workers, without the
// GIL: the loop goes on meanwhile. totals() looks at Python's own objects.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <ringloop/python.hpp>

namespace rl = ringloop;
namespace py = ringloop::py;

namespace {

void check(bool fits) {
    if (!fits) throw std::invalid_argument("logic: the arrays are of other sizes");
}

// into += a * b for square matrices, four rows of b at a time.
#if defined(__x86_64__) && !defined(__clang__)
[[gnu::target_clones("arch=haswell", "default")]]
#endif
void multiply_square(const float* a, const float* b, float* into, std::size_t size) {
    constexpr std::size_t together = 64;  // rows of b that stay in the cache
    for (std::size_t first = 0; first < size; first += together) {
        const std::size_t last = std::min(first + together, size);
        for (std::size_t row = 0; row < size; ++row) {
            float* const out = into + row * size;
            std::size_t k = first;
            for (; k + 4 <= last; k += 4) {
                const float* const by = a + row * size + k;
                const float* const from = b + k * size;
                for (std::size_t i = 0; i < size; ++i)
                    out[i] += by[0] * from[i] + by[1] * from[size + i] +
                              by[2] * from[2 * size + i] + by[3] * from[3 * size + i];
            }
            for (; k < last; ++k)
                for (std::size_t i = 0; i < size; ++i)
                    out[i] += a[row * size + k] * b[k * size + i];
        }
    }
}

rl::task<void> multiply(py::buffer<const float> a, py::buffer<const float> b,
                        py::buffer<float> into, std::size_t size) {
    check(a.size() == size * size && b.size() == size * size && into.size() == size * size);
    co_await rl::offload([&] { multiply_square(a.data(), b.data(), into.data(), size); });
}

// 1 4 6 4 1 along both axes of an image of three colours; its edges are repeated.
void blur_image(std::span<const std::uint8_t> from, std::span<std::uint8_t> into,
                std::size_t height, std::size_t width) {
    constexpr std::size_t colours = 3, margin = 2 * colours;
    std::vector<std::uint16_t> sums(width + 2 * margin);
    const auto line = [&](std::size_t y, int away) {
        const auto at = static_cast<std::ptrdiff_t>(y) + away;
        const auto last = static_cast<std::ptrdiff_t>(height) - 1;
        return from.data() +
               static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(at, 0, last)) * width;
    };
    for (std::size_t y = 0; y < height; ++y) {
        const std::uint8_t *a = line(y, -2), *b = line(y, -1), *c = line(y, 0), *d = line(y, 1),
                           *e = line(y, 2);
        std::uint16_t* const middle = sums.data() + margin;
        for (std::size_t x = 0; x < width; ++x)
            middle[x] = static_cast<std::uint16_t>(a[x] + 4 * b[x] + 6 * c[x] + 4 * d[x] + e[x]);
        for (std::size_t x = margin; x-- > 0;) sums[x] = sums[x + colours];
        for (std::size_t x = margin + width; x < sums.size(); ++x) sums[x] = sums[x - colours];
        const std::uint16_t* const near = sums.data();
        std::uint8_t* const out = into.data() + y * width;
        for (std::size_t x = 0; x < width; ++x)
            out[x] =
                static_cast<std::uint8_t>((near[x] + 4 * near[x + colours] + 6 * near[x + margin] +
                                           4 * near[x + margin + colours] + near[x + 2 * margin]) /
                                          256);
    }
}

rl::task<void> blur(py::buffer<const std::uint8_t> frame, py::buffer<std::uint8_t> into,
                    std::size_t height, std::size_t width) {
    check(frame.size() == height * width && into.size() == height * width && width % 3 == 0 &&
          width != 0);
    co_await rl::offload([&] { blur_image(frame.span(), into.span(), height, width); });
}

PyObject* item(PyObject* record, const char* name) {
    PyObject* const found = PyDict_GetItemString(record, name);
    if (found == nullptr) throw std::invalid_argument(std::string("a record has no ") + name);
    return found;
}

// What each category has cost, of a list of dicts.
py::ref totals(py::borrow records) {
    if (!PyList_Check(records.get())) throw std::invalid_argument("totals() takes a list");
    std::map<std::string, double> all;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(records.get()); ++i) {
        PyObject* const record = PyList_GET_ITEM(records.get(), i);
        if (!PyDict_Check(record)) throw std::invalid_argument("a record is a dict");
        all[py::from_python<std::string>(item(record, "category"))] +=
            py::from_python<double>(item(record, "price")) *
            py::from_python<double>(item(record, "count"));
    }
    return py::to_python(all);
}

int fill(PyObject* module) {
    return py::fast<&multiply>(module, "multiply") < 0 || py::fast<&blur>(module, "blur") < 0 ||
                   py::fast<&totals>(module, "totals") < 0
               ? -1
               : 0;
}

PyModuleDef_Slot slots[] = {{Py_mod_exec, reinterpret_cast<void*>(&fill)}, {0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "logic", nullptr, 0, nullptr, slots, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_logic() {
    return PyModuleDef_Init(&definition);
}
