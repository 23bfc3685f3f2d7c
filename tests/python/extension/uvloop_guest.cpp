// A ringloop scheduler inside of uvloop's own libuv, through the pointer that uvloop exports.
#include <pybind11/pybind11.h>
#include <ringloop/interop/uv.hpp>

#include <memory>
#include <string>

#include "ringloop/ringloop.hpp"

namespace rl = ringloop;
namespace py = pybind11;

namespace {

rl::task<void> count(int& steps, int wanted) {
    while (steps < wanted) {
        co_await rl::sleep_for(std::chrono::milliseconds(1));
        ++steps;
    }
}

// Destroyed on the loop's thread, in one of its callbacks or between two runs.
class guest {
  public:
    guest(const py::capsule& loop, const std::string& module)
        : host_(static_cast<uv_loop_t*>(loop.get_pointer()),
                rl::interop::uv_functions::of_module(module.c_str())) {}
    void start(int wanted) { host_.spawn(count(steps_, wanted)); }
    [[nodiscard]] int steps() const { return steps_; }

  private:
    int steps_ = 0;
    rl::interop::uv_host host_;
};

}  // namespace

PYBIND11_MODULE(bridge_uvloop_guest, m) {
    py::class_<guest>(m, "Guest")
        .def(py::init<py::capsule, std::string>())
        .def("start", &guest::start)
        .def_property_readonly("steps", &guest::steps);
}
