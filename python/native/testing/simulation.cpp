// Simulation: one simulated driver for one event loop, and the other side of its sockets.
//
//     s = _native.Simulation(seed=…, plan=["work:17:error:104"], …)
//     loop = ringloop.new_event_loop(driver=s.driver())
//
// The loop owns the driver once it has it. The simulation looks at it as long as it lives and keeps
// its record, its open descriptors and its violations when it ends. GIL held throughout; actions
// of after() take it, as they run inside the loop's wait.
#include "simulation.hpp"

#include <netinet/in.h>
#include <poll.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <vector>

#include "files.hpp"
#include "ringloop/bridge/python/host.hpp"
#include "ringloop/testing/fake_driver.hpp"

namespace ringloop::python {
namespace {

namespace py = pybind11;
using namespace testing;

[[noreturn]] void raise_errno(ssize_t result) {
    errno = static_cast<int>(-result);
    PyErr_SetFromErrno(PyExc_OSError);
    throw py::error_already_set();
}

ssize_t checked(ssize_t result) {
    if (result < 0) raise_errno(result);
    return result;
}

sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

struct options {
    std::uint64_t seed;
    unsigned faults, latencies, disorder;
    bool harmless_only;
    std::vector<std::string> plan;
    unsigned buffer_count, buffer_size;
    std::size_t socket_buffer;
    std::uint64_t steps_max;
};

class simulation {
  public:
    explicit simulation(const options& wanted) {
        fake_config config;
        config.random = {.seed = wanted.seed,
                         .faults = wanted.faults,
                         .latencies = wanted.latencies,
                         .disorder = wanted.disorder,
                         .harmless_only = wanted.harmless_only};
        for (const std::string& text : wanted.plan) config.plan.push_back(parse_fault(text));
        config.driver.buffer_count = wanted.buffer_count;
        config.driver.buffer_size = wanted.buffer_size;
        config.kernel.socket_buffer = wanted.socket_buffer;
        config.steps_max = wanted.steps_max;
        config.kernel.foreign_descriptors = true;  // the loop's signal pair is real
        fresh_ = make_fake_driver(config);
        io_ = fresh_.get();
        io_->on_end = [this](fake_driver& ending) { keep(ending); };
        io_->on_failure = [this](const std::string& report) {
            failure_ = report;
            const py::gil_scoped_acquire gil;
            if (!on_failure.is_none()) on_failure(report);
        };
    }
    ~simulation() {
        if (io_ == nullptr) return;
        io_->on_end = nullptr;
        io_->on_failure = nullptr;
    }

    // The capsule that new_event_loop(driver=…) takes. Once.
    py::capsule driver() {
        if (fresh_ == nullptr) throw py::value_error("the driver of this simulation is taken");
        auto* holder = new std::unique_ptr<ringloop::driver>(std::move(fresh_));
        return py::capsule(holder, "ringloop.driver", [](PyObject* capsule) {
            delete static_cast<std::unique_ptr<ringloop::driver>*>(
                PyCapsule_GetPointer(capsule, "ringloop.driver"));
        });
    }

    fake_driver& io() {
        if (io_ == nullptr) throw py::value_error("the loop of this simulation is closed");
        return *io_;
    }
    simulated_kernel& kernel() { return io().kernel(); }
    object_ref object(int fd) {
        object_ref found = kernel().find(fd);
        if (found == nullptr) raise_errno(-EBADF);
        return found;
    }

    int make_socket() {
        return static_cast<int>(checked(kernel().make_socket(AF_INET, SOCK_STREAM, 0)));
    }
    int make_datagram_socket() {
        return static_cast<int>(checked(kernel().make_socket(AF_INET, SOCK_DGRAM, 0)));
    }
    void bind(int fd, std::uint16_t port) {
        const sockaddr_in at = loopback(port);
        checked(kernel().bind(*object(fd), reinterpret_cast<const sockaddr*>(&at), sizeof at));
    }
    void listen(int fd, int backlog) { checked(kernel().listen(*object(fd), backlog)); }
    void connect(int fd, std::uint16_t port) {
        const sockaddr_in to = loopback(port);
        checked(kernel().connect(object(fd), reinterpret_cast<const sockaddr*>(&to), sizeof to));
    }
    int accept(int fd) { return static_cast<int>(checked(kernel().accept(*object(fd)))); }
    std::pair<int, int> connected_pair() {
        int fds[2];
        checked(kernel().socket_pair(fds));
        return {fds[0], fds[1]};
    }
    ssize_t send(int fd, const py::bytes& data) {
        const std::string_view view = data;
        return checked(kernel().send_bytes(fd, view.data(), view.size()));
    }
    py::bytes receive(int fd, std::size_t size) {
        std::string room(size, '\0');
        room.resize(
            static_cast<std::size_t>(checked(kernel().receive_bytes(fd, room.data(), size))));
        return room;
    }
    void close(int fd) { checked(kernel().close(fd)); }
    void shutdown(int fd, int how) { checked(kernel().shutdown(*object(fd), how)); }
    void reset(int fd) { kernel().break_stream(*object(fd)); }
    std::pair<std::string, int> address(int fd, bool peer) {
        sockaddr_in at = {};
        socklen_t size = sizeof at;
        auto* raw = reinterpret_cast<sockaddr*>(&at);
        checked(peer ? kernel().peer_address(*object(fd), raw, &size)
                     : kernel().local_address(*object(fd), raw, &size));
        return {"127.0.0.1", ntohs(at.sin_port)};
    }

    int socket_error(int fd) {
        int number = 0;
        socklen_t size = sizeof number;
        checked(kernel().get_option(*object(fd), SOL_SOCKET, SO_ERROR, &number, &size));
        return number;
    }

    void add_file(const std::string& path, const py::bytes& content) {
        kernel().add_file(path, std::string_view(content));
    }
    py::bytes file_content(const std::string& path) { return kernel().file_content(path); }

    void after(double seconds, py::function action) {
        auto kept = std::make_shared<py::function>(std::move(action));
        io().after(static_cast<std::int64_t>(seconds * 1e9), [kept]() mutable {
            const py::gil_scoped_acquire gil;
            try {
                (*kept)();
            } catch (py::error_already_set& failure) {
                failure.discard_as_unraisable("an action of a simulation");
            }
            kept.reset();
        });
    }

    std::size_t open_descriptors() { return io_ != nullptr ? kernel().open_descriptors() : open_; }
    std::size_t leased() { return io_ != nullptr ? io_->leased_buffers() : leased_; }
    std::vector<std::string> violations() {
        return io_ != nullptr ? io_->violations() : violations_;
    }
    std::vector<step_record> record() { return io_ != nullptr ? io_->record() : record_; }
    bool harmful() { return io_ != nullptr ? io_->harmful_fault_injected() : harmful_; }
    std::string report(const std::string& headline) {
        return io_ != nullptr ? io_->report(headline) : headline + last_report_;
    }
    [[nodiscard]] const std::string& failure() const { return failure_; }
    void stop_faults() { io().stop_faults(); }

    // Every (domain, number, fault) that this run offers, as texts for `plan`.
    std::vector<std::string> possible_faults() {
        std::vector<std::string> texts;
        std::uint64_t numbers[3] = {};
        for (const step_record& step : record()) {
            const std::uint64_t number = numbers[static_cast<int>(step.domain)]++;
            for (const fault& what : applicable_faults(step))
                texts.push_back(to_text(planned_fault{step.domain, number, what}));
        }
        return texts;
    }
    std::vector<std::string> steps() {
        std::vector<std::string> texts;
        for (const step_record& step : record()) texts.push_back(to_text(step));
        return texts;
    }

    py::object on_failure = py::none();

  private:
    void keep(fake_driver& ending) {
        record_ = ending.record();
        violations_ = ending.violations();
        open_ = ending.kernel().open_descriptors();
        leased_ = ending.leased_buffers();
        harmful_ = ending.harmful_fault_injected();
        last_report_ = ending.report("");
        io_ = nullptr;
    }

    std::unique_ptr<fake_driver> fresh_;
    fake_driver* io_ = nullptr;
    std::string failure_;
    std::string last_report_;
    std::vector<step_record> record_;
    std::vector<std::string> violations_;
    std::size_t open_ = 0;
    std::size_t leased_ = 0;
    bool harmful_ = false;
};

// Files that nobody took are closed by this instead of os.close.
void set_file_close(const py::function& close) {
    Py_XSETREF(os_close, Py_NewRef(close.ptr()));
}

std::unique_ptr<simulation> make(std::uint64_t seed, unsigned faults, unsigned latencies,
                                 unsigned disorder, bool harmless_only,
                                 std::vector<std::string> plan, unsigned buffer_count,
                                 unsigned buffer_size, std::size_t socket_buffer,
                                 std::uint64_t steps_max) {
    return std::make_unique<simulation>(options{seed, faults, latencies, disorder, harmless_only,
                                                std::move(plan), buffer_count, buffer_size,
                                                socket_buffer, steps_max});
}

// What a native task does on a loop of the real world: waits for a descriptor until close().
class native_wait {
  public:
    native_wait(const py::object& loop, int fd) : host_(bridge::host_of(loop.ptr())) {
        if (host_ == nullptr) throw py::error_already_set();
        op_.prepare_poll(fd, POLLIN);
        host_->native().io().submit(op_);
    }
    void close() { host_->native().io().retire(op_); }

  private:
    bridge::loop_host* host_;
    operation op_{[](operation&, const completion&) noexcept {}};
};

void define(py::module_& module) {
    using namespace py::literals;
    py::class_<native_wait>(module, "NativeWait")
        .def(py::init<py::object, int>())
        .def("close", &native_wait::close);
    py::class_<simulation>(module, "Simulation")
        .def(py::init(&make), py::kw_only(), "seed"_a = 0, "faults"_a = 0, "latencies"_a = 0,
             "disorder"_a = 0, "harmless_only"_a = false, "plan"_a = std::vector<std::string>(),
             "buffer_count"_a = 8, "buffer_size"_a = 1024, "socket_buffer"_a = 4096,
             "steps_max"_a = 100'000)
        .def_static("set_file_close", &set_file_close)
        .def("driver", &simulation::driver)
        .def("make_socket", &simulation::make_socket)
        .def("make_datagram_socket", &simulation::make_datagram_socket)
        .def("bind", &simulation::bind)
        .def("listen", &simulation::listen)
        .def("connect", &simulation::connect)
        .def("accept", &simulation::accept)
        .def("connected_pair", &simulation::connected_pair)
        .def("send", &simulation::send)
        .def("receive", &simulation::receive)
        .def("close", &simulation::close)
        .def("shutdown", &simulation::shutdown)
        .def("reset", &simulation::reset)
        .def("address", &simulation::address)
        .def("socket_error", &simulation::socket_error)
        .def("add_file", &simulation::add_file)
        .def("file_content", &simulation::file_content)
        .def("after", &simulation::after)
        .def("stop_faults", &simulation::stop_faults)
        .def("report", &simulation::report)
        .def("possible_faults", &simulation::possible_faults)
        .def_readwrite("on_failure", &simulation::on_failure)
        .def_property_readonly("failure", &simulation::failure)
        .def_property_readonly("open_descriptors", &simulation::open_descriptors)
        .def_property_readonly("leased_buffers", &simulation::leased)
        .def_property_readonly("violations", &simulation::violations)
        .def_property_readonly("harmful", &simulation::harmful)
        .def_property_readonly("steps", &simulation::steps);
}

}  // namespace

int add_simulation_types(PyObject* module) noexcept {
    try {
        auto borrowed = py::reinterpret_borrow<py::module_>(module);
        define(borrowed);
        return 0;
    } catch (py::error_already_set& failure) {
        failure.restore();
    } catch (const std::exception& failure) {
        PyErr_SetString(PyExc_ImportError, failure.what());
    }
    return -1;
}

}  // namespace ringloop::python
