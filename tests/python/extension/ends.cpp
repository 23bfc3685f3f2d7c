// bridge_ends: work on threads of its own, for tests that end it at every stage: by cancels, by the
// end of its loop, by that of the interpreter; and descriptors that change hands.
#include <pybind11/stl.h>

// behind Python.h
#include <ringloop/handle.h>

#include <poll.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <ringloop/python.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace py = pybind11;
namespace rl = ringloop;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

std::atomic<long> alive{0};  // frames of what is counted

struct counted {
    counted() { ++alive; }
    counted(const counted&) = delete;
    counted& operator=(const counted&) = delete;
    ~counted() { --alive; }
};

void compute_for(int work_us) {
    const auto end = steady_clock::now() + std::chrono::microseconds(work_us);
    while (steady_clock::now() < end) {
    }
}
rl::scheduler& other_thread() {
    static auto* const pool = new rl::scheduler_pool({.threads = 1});
    return (*pool)[0];
}

// ---- every stage of a cancel

rl::task<int> immediate(int value) {
    const counted one;
    co_return value;
}
rl::task<int> turns(int count) {
    const counted one;
    for (int i = 0; i < count; ++i) co_await rl::yield();
    co_return count;
}
rl::task<int> sleeps(int delay_us) {
    const counted one;
    co_await rl::sleep_for(std::chrono::microseconds(delay_us));
    co_return delay_us;
}
rl::task<int> offloads(int work_us) {
    const counted one;
    co_await rl::offload([work_us] { compute_for(work_us); });
    co_return work_us;
}
rl::task<int> offloads_until_stopped() {
    const counted one;
    co_return co_await rl::offload([](std::stop_token token) {
        int steps = 0;
        for (; !token.stop_requested(); ++steps) std::this_thread::yield();
        return steps;
    });
}
rl::task<int> goes_elsewhere(int delay_us) {
    const counted one;
    co_return co_await rl::on(other_thread(), sleeps(delay_us));
}
rl::task<int> finishes_in_any_case(int delay_us) {
    const counted one;
    co_return co_await rl::shield(sleeps(delay_us));
}
rl::task<int> fails(int delay_us) {
    const counted one;
    co_await rl::sleep_for(std::chrono::microseconds(delay_us));
    throw std::out_of_range("meant");
}
rl::task<rl::py::ref> awaits(rl::py::ref thing) {
    const counted one;
    co_return co_await rl::py::await(std::move(thing));
}
rl::task<rl::py::ref> awaits_in_any_case(rl::py::ref thing) {
    co_return co_await rl::shield(awaits(std::move(thing)));
}
rl::task<rl::py::ref> calls_in_any_case(rl::py::function makes, int delay_us) {
    co_return co_await rl::shield([](rl::py::function makes_it, int us) -> rl::task<rl::py::ref> {
        const counted one;
        co_await rl::sleep_for(std::chrono::microseconds(us));
        co_return co_await makes_it.call<rl::py::ref>();
    }(std::move(makes), delay_us));
}
rl::task<int> calls(rl::py::function function) {
    const counted one;
    co_return co_await function.call<int>(1);
}
// The reference ends on the worker, where nobody has the GIL.
rl::task<int> keeps(rl::py::ref object, int work_us) {
    const counted one;
    auto work = [kept = std::move(object), work_us]() mutable {
        compute_for(work_us);
        kept = rl::py::ref();
    };
    co_await rl::offload(std::move(work));
    co_return 1;
}
rl::generator<int> numbers(int end, int delay_us) {
    const counted one;
    for (int i = 0; i < end; ++i) {
        co_await rl::sleep_for(std::chrono::microseconds(delay_us));
        co_yield i;
    }
}

// ---- descriptors

rl::task<rl::py::owned_fd> answer(rl::py::owned_fd given) {
    const counted one;
    rl::net::tcp_stream stream(*rl::scheduler::current(), given.release());
    std::byte space[4096];
    const std::size_t count = co_await stream.read_some(space);
    std::string text(reinterpret_cast<const char*>(space), count);
    for (char& each : text) each = each >= 'a' && each <= 'z' ? static_cast<char>(each - 32) : each;
    co_await stream.write_all(text);
    co_return rl::py::owned_fd(stream.release());
}
rl::task<rl::py::owned_fd> answer_elsewhere(rl::py::owned_fd given) {
    const counted one;
    co_return co_await rl::on(other_thread(), answer(std::move(given)));
}
rl::task<rl::py::owned_fd> twice(rl::py::owned_fd one, rl::py::owned_fd, int) {
    co_return one;
}

// ---- objects that outlive the loop on which they were made

struct connection {
    rl::task<void> open(rl::py::owned_fd given) {
        stream.emplace(*rl::scheduler::current(), given.release());
        co_return;
    }
    // What comes with it stays on loan until the next.
    rl::task<int> receive() {
        chunk = co_await stream->receive();
        co_return static_cast<int>(chunk.size());
    }
    rl::task<void> send(std::string text) { co_await stream->write_all(text); }
    std::optional<rl::net::tcp_stream> stream;
    rl::buffer_lease chunk;
};
rl::generator<int> sizes(rl::py::owned_fd given) {
    rl::net::tcp_stream stream(*rl::scheduler::current(), given.release());
    while (true) {
        auto chunk = co_await stream.receive();
        if (!chunk) co_return;
        co_yield static_cast<int>(chunk.size());
    }
}

// ---- at the interpreter's end

// Completes each token, a moment after the other. The thread keeps the handle's memory for good.
void produce(py::object capsule, std::vector<ringloop_token> tokens) {
    ringloop_handle* const handle = ringloop_handle_of(capsule.release().ptr());
    if (handle == nullptr) throw py::error_already_set();
    std::thread([handle, tokens = std::move(tokens)] {
        for (const ringloop_token token : tokens) {
            compute_for(500);
            if (ringloop_handle_complete_int(handle, token, 1) != 0) return;
        }
    }).detach();
}

// A thread that takes the GIL again and again, with a handler for whatever that throws. It rests in
// between: CPython gives the GIL to whoever asks most, and the one that ends the program has to
// come to it, too.
void take_the_gil_until_the_end() {
    std::thread([] {
        for (;;) {
            try {
                const rl::py::gil_scope gil;
            } catch (const rl::py::interpreter_ended&) {
                return;
            } catch (...) {
            }
            poll(nullptr, 0, 1);
        }
    }).detach();
}

}  // namespace

PYBIND11_MODULE(bridge_ends, m) {
    rl::py::def<&immediate>(m, "immediate");
    rl::py::def<&turns>(m, "turns");
    rl::py::def<&sleeps>(m, "sleeps");
    rl::py::def<&offloads>(m, "offloads");
    rl::py::def<&offloads_until_stopped>(m, "offloads_until_stopped");
    rl::py::def<&goes_elsewhere>(m, "goes_elsewhere");
    rl::py::def<&finishes_in_any_case>(m, "finishes_in_any_case");
    rl::py::def<&fails>(m, "fails");
    rl::py::def<&awaits>(m, "awaits");
    rl::py::def<&awaits_in_any_case>(m, "awaits_in_any_case");
    rl::py::def<&calls_in_any_case>(m, "calls_in_any_case");
    rl::py::def<&calls>(m, "calls");
    rl::py::def<&keeps>(m, "keeps");
    rl::py::def<&numbers>(m, "numbers");
    rl::py::def<&answer>(m, "answer");
    rl::py::def<&answer_elsewhere>(m, "answer_elsewhere");
    rl::py::def<&twice>(m, "twice");
    py::class_<connection> c(m, "Connection");
    c.def(py::init<>());
    rl::py::def<&connection::open>(c, "open");
    rl::py::def<&connection::receive>(c, "receive");
    rl::py::def<&connection::send>(c, "send");
    rl::py::def<&sizes>(m, "sizes");
    static_cast<void>(other_thread());  // its thread stays: not one test's
    m.def("produce", &produce);
    m.def("take_the_gil_until_the_end", &take_the_gil_until_the_end);
    m.def("alive", [] { return alive.load(); });
}
