// What tests export to Python by py::def, as somebody's extension module would: the same for each
// binding tool, which `binder` names where this is included.
#pragma once

#include <chrono>
#include <ringloop/python.hpp>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace rl = ringloop;
using std::chrono::milliseconds;

namespace calls {

inline rl::task<void> nothing() {
    co_return;
}
inline rl::task<int> add(int one, int other) {
    co_return one + other;
}
inline rl::task<std::string> wait(int delay_ms, std::string answer) {
    co_await rl::sleep_for(milliseconds(delay_ms));
    co_return answer;
}
inline rl::task<void> forever() {
    co_await rl::sleep_for(std::chrono::hours(24));
}
inline rl::task<int> twice(int value) {
    co_return value * 2;
}

// ---- sockets

inline rl::task<rl::py::bytes> ask(std::string host, int port, rl::py::bytes question) {
    const rl::net::endpoint at(host, static_cast<std::uint16_t>(port));
    auto stream = co_await rl::net::tcp_stream::connect(at);
    co_await stream.write_all(std::as_bytes(std::span(question.data)));
    auto chunk = co_await stream.receive();
    const auto all = chunk.bytes();
    co_return rl::py::bytes(std::string(reinterpret_cast<const char*>(all.data()), all.size()));
}

// ---- cancellation

inline int cleaned_up = 0;

inline rl::task<void> careful() {
    try {
        co_await rl::sleep_for(std::chrono::hours(24));
    } catch (const rl::operation_cancelled&) {
        ++cleaned_up;
        throw;
    }
}
inline rl::task<void> clumsy() {
    try {
        co_await rl::sleep_for(std::chrono::hours(24));
    } catch (const rl::operation_cancelled&) {
        throw std::invalid_argument("could not clean up");
    }
}
inline rl::task<int> stubborn(rl::py::function gate) {
    const int value = co_await rl::shield([](rl::py::function shielded) -> rl::task<int> {
        co_await shielded.call();
        ++cleaned_up;
        co_return 1;
    }(std::move(gate)));
    co_return value;
}

// ---- errors

struct own_error : std::runtime_error {  // known to the binding tool as a type of its own
    using std::runtime_error::runtime_error;
};
struct answered_error : std::runtime_error {  // and this one by a translator
    using std::runtime_error::runtime_error;
};
struct ignored_error : std::runtime_error {  // a translator takes it, and sets no exception
    using std::runtime_error::runtime_error;
};
struct replaced_error : std::runtime_error {  // a translator throws another in its place
    using std::runtime_error::runtime_error;
};
// What a translator does: other failures go through it.
inline void answer(const std::exception_ptr& failure) {
    try {
        std::rethrow_exception(failure);
    } catch (const answered_error& error) {
        PyErr_SetString(PyExc_BufferError, error.what());
    } catch (const ignored_error&) {
    } catch (const replaced_error& error) {
        throw std::out_of_range(error.what());
    }
}

inline rl::task<void> fail(std::string how, bool at_once) {
    if (!at_once) co_await rl::sleep_for(milliseconds(1));
    if (how == "invalid_argument") throw std::invalid_argument(how);
    if (how == "out_of_range") throw std::out_of_range(how);
    if (how == "overflow") throw std::overflow_error(how);
    if (how == "not_found") throw std::system_error(ENOENT, std::generic_category(), how);
    if (how == "latin-1") throw std::runtime_error("caf\xe9");
    if (how == "latin-1 name") throw std::system_error(ENOENT, std::generic_category(), "caf\xe9");
    if (how == "timeout") throw std::system_error(ETIMEDOUT, std::generic_category(), how);
    if (how == "limit") co_await rl::with_timeout(milliseconds(1), forever());
    if (how == "memory") throw std::bad_alloc();
    if (how == "cancelled") throw rl::operation_cancelled();
    if (how == "runtime") throw std::runtime_error(how);
    if (how == "nothing of std") throw 5;
    if (how == "own") throw own_error(how);
    if (how == "answered") throw answered_error(how);
    if (how == "ignored") throw ignored_error(how);
    if (how == "replaced") throw replaced_error(how);
    if (how == "unsupported") throw rl::py::error::of(PyExc_NotImplementedError, how);
    if (how == "key") throw binder::key_error(how.c_str());
    throw std::logic_error("no such way to fail: " + how);
}
inline rl::task<void> fail_for_a_reason() {
    try {
        try {
            throw std::system_error(ECONNRESET, std::generic_category(), "first");
        } catch (...) {
            std::throw_with_nested(std::out_of_range("second"));
        }
    } catch (...) {
        std::throw_with_nested(std::runtime_error("third"));
    }
    co_return;
}

// ---- Python from here

inline rl::task<int> sum(std::vector<int> all, rl::py::function each) {
    int total = 0;
    for (int one : all) total += co_await each.call<int>(one);
    co_return total;
}
inline rl::task<rl::py::ref> wait_for(rl::py::ref thing) {
    co_return co_await rl::py::await(std::move(thing));
}
inline rl::task<rl::py::ref> wait_later_for(rl::py::ref thing) {
    co_await rl::sleep_for(milliseconds(1));
    co_return co_await rl::py::await(std::move(thing));
}
inline rl::task<std::string> what_it_raises(rl::py::ref thing) {
    try {
        static_cast<void>(co_await rl::py::await(std::move(thing)));
    } catch (const rl::py::error& raised) {
        co_return raised.what();
    }
    co_return "nothing";
}
// Fails for whatever Python raised; for a type that the binding tool knows; by one.
inline rl::task<void> fail_because_of(rl::py::function why) {
    try {
        co_await why.call();
    } catch (...) {
        std::throw_with_nested(own_error("because of Python"));
    }
}
inline rl::task<void> fail_by_an_own_reason() {
    try {
        throw own_error("reason");
    } catch (...) {
        std::throw_with_nested(std::runtime_error("because of it"));
    }
    co_return;
}
struct stranger {};  // no type of Python's
inline rl::task<void> show_a_stranger(rl::py::function to) {
    co_await to.call<void>(stranger{});
}
inline rl::generator<int> called(rl::py::function each) {
    while (true) co_yield co_await each.call<int>();
}
inline rl::task<void> call_group(rl::py::function each, int count) {
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        for (int i = 0; i < count; ++i) group.spawn(each.call(i));
        co_return;
    });
}
inline rl::task<rl::py::ref> variable(rl::py::ref of, bool at_once) {
    if (!at_once) co_await rl::sleep_for(milliseconds(1));
    const auto context = co_await rl::py::current_context();
    co_await rl::py::hold_gil();
    co_return context.get(of.get());
}
inline rl::task<bool> inherits_context() {
    const auto here = co_await rl::py::current_context();
    rl::py::context inside;
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        group.spawn([](rl::py::context& found) -> rl::task<void> {
            co_await rl::sleep_for(milliseconds(1));
            found = co_await rl::py::current_context();
        }(inside));
        co_return;
    });
    co_return here&& here.get() == inside.get();
}
// The reference is dropped in the native phase, where nobody may hold the GIL.
inline rl::task<void> keep(rl::py::ref object, int delay_ms) {
    co_await rl::sleep_for(milliseconds(delay_ms));
    object = rl::py::ref();
}

// ---- the GIL

inline rl::task<void> spin(int busy_us) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(busy_us);
    while (std::chrono::steady_clock::now() < end) {
    }
    co_return;
}

// ---- an answer that may be there already

inline rl::py::outcome<std::string> perhaps(std::string text, bool known) {
    if (text.empty()) throw std::invalid_argument("nothing given");
    if (known) return text;
    return wait(1, std::move(text));
}

// The processor is kept busy in a later step, which ends the coroutine or goes to wait.
inline rl::task<void> burn(int busy_us, bool waits_then) {
    co_await rl::sleep_for(milliseconds(1));
    co_await spin(busy_us);
    if (waits_then) co_await rl::yield();
}
inline rl::task<void> burn_in_group(int busy_us) {
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        group.spawn(burn(busy_us, false));
        co_return;
    });
}

// ---- generators and objects

inline rl::generator<int> count(int end, int delay_ms) {
    for (int i = 0; i < end; ++i) {
        if (delay_ms != 0) co_await rl::sleep_for(milliseconds(delay_ms));
        co_yield i;
    }
}
inline rl::generator<int> burning(int busy_us) {
    co_await spin(busy_us);
    co_yield 1;
}
inline rl::generator<std::string> broken() {
    co_yield "one";
    throw std::out_of_range("no more");
}

struct session {
    explicit session(std::string named) : name(std::move(named)) { ++living; }
    ~session() { --living; }
    session(const session&) = delete;
    session& operator=(const session&) = delete;

    rl::task<std::string> greet(std::string whom) const {
        co_await rl::sleep_for(milliseconds(5));
        co_return name + " greets " + whom;
    }
    rl::generator<std::string> letters() {
        for (const char letter : name) co_yield std::string(1, letter);
    }
    rl::task<void> open() {
        co_await rl::sleep_for(milliseconds(1));
        is_open = true;
    }
    rl::task<void> close() {
        co_await rl::sleep_for(milliseconds(1));
        is_open = false;
    }
    static int living;
    std::string name;
    bool is_open = false;
};
inline int session::living = 0;

// Of the binding tool's classes, only the derived one is known to it.
struct named {
    rl::task<std::string> what_name() const { co_return own_name; }
    rl::generator<char> spelled() {
        for (const char letter : own_name) co_yield letter;
    }
    rl::task<void> enter() { co_return; }
    rl::task<void> leave() noexcept {
        own_name.clear();
        co_return;
    }
    std::string own_name = "base";
};
// Not members, and exported as such.
inline rl::task<std::string> called_name(named& one, std::string title) {
    co_await rl::sleep_for(milliseconds(1));
    co_return title + " " + one.own_name;
}
inline rl::generator<char> spelled_backwards(const named& one) noexcept {
    for (auto letter = one.own_name.rbegin(); letter != one.own_name.rend(); ++letter)
        co_yield *letter;
}
struct derived : named {
    static rl::task<derived> made(std::string its_name) {
        co_await rl::sleep_for(milliseconds(1));
        derived one;
        one.own_name = std::move(its_name);
        co_return one;
    }
};

// ---- what Python keeps while its loop goes

struct keeper {
    rl::task<std::vector<int>> open(int port) {
        const rl::net::endpoint at("127.0.0.1", static_cast<std::uint16_t>(port));
        stream = co_await rl::net::tcp_stream::connect(at);
        co_await stream.write_all("x");
        const auto chunk = co_await stream.receive();  // and goes on receiving
        ends.push_back(rl::make_pipe());
        co_return std::vector<int>{stream.native_handle(), ends[0].reader.native_handle(),
                                   ends[0].writer.native_handle()};
    }
    rl::task<void> use() { co_await stream.write_all("y"); }
    rl::net::tcp_stream stream;
    std::vector<rl::pipe_ends> ends;
};
inline rl::generator<int> holding(int port) {
    const rl::net::endpoint at("127.0.0.1", static_cast<std::uint16_t>(port));
    auto stream = co_await rl::net::tcp_stream::connect(at);
    co_await stream.write_all("x");
    while (auto chunk = co_await stream.receive()) co_yield stream.native_handle();
}

// ---- arrays, names, descriptors

inline rl::task<double> mean_of_doubles(rl::py::buffer<const double> all) {
    co_return co_await rl::offload([&all] {
        double sum = 0;
        for (const double each : all.span()) sum += each;
        return sum / static_cast<double>(all.size());
    });
}
inline rl::task<float> mean_of_floats(rl::py::buffer<const float> all) {
    float sum = 0;
    for (const float each : all.span()) sum += each;
    co_return sum / static_cast<float>(all.size());
}
inline rl::task<rl::py::buffer<int>> raised(rl::py::buffer<int> all, int delay_ms) {
    co_await rl::sleep_for(milliseconds(delay_ms));
    for (int& each : all.span()) ++each;
    co_return std::move(all);
}
inline rl::task<std::vector<long>> shape(rl::py::buffer<const std::byte> all) {
    co_return std::vector<long>(all.shape().begin(), all.shape().end());
}
inline rl::task<int> look_up(std::string host) {
    co_return static_cast<int>((co_await rl::net::resolve(host, 1)).size());
}
inline rl::task<rl::py::owned_fd> pass_on(rl::py::owned_fd given, int delay_ms) {
    co_await rl::sleep_for(milliseconds(delay_ms));
    co_return std::move(given);
}

struct point {
    int x;
    int y;
};
inline rl::task<point> reflected(point from) {
    co_return point{-from.x, -from.y};
}
inline rl::task<point> moved(std::vector<point> all, rl::py::function each) {
    point total{0, 0};
    for (const point& one : all) {
        const point by = co_await each.call<point>(one);
        total = {total.x + by.x, total.y + by.y};
    }
    co_return total;
}

inline void add_python_calls(binder::module_& m) {
    rl::py::def<&sum>(m, "sum");
    rl::py::def<&wait_for>(m, "wait_for");
    rl::py::def<&wait_later_for>(m, "wait_later_for");
    rl::py::def<&what_it_raises>(m, "what_it_raises");
    rl::py::def<&call_group>(m, "call_group");
    rl::py::def<&fail_because_of>(m, "fail_because_of");
    rl::py::def<&fail_by_an_own_reason>(m, "fail_by_an_own_reason");
    rl::py::def<&show_a_stranger>(m, "show_a_stranger");
    rl::py::def<&called>(m, "called");
    rl::py::def<&variable>(m, "variable");
    rl::py::def<&inherits_context>(m, "inherits_context");
    rl::py::def<&keep>(m, "keep", binder::arg("object"), binder::arg("delay_ms") = 0);
}

inline void add_calls(binder::module_& m) {
    rl::py::def<&nothing>(m, "nothing");
    rl::py::def<&add>(m, "add", binder::arg("one"), binder::arg("other") = 10, "Adds.");
    rl::py::def<&wait>(m, "wait");
    rl::py::def<&forever>(m, "forever");
    rl::py::def<&ask>(m, "ask");
    rl::py::def<&careful>(m, "careful");
    rl::py::def<&clumsy>(m, "clumsy");
    rl::py::def<&stubborn>(m, "stubborn");
    rl::py::def<[](int value) -> rl::task<int> { co_return co_await twice(value); }>(m, "twice");
    rl::py::def<&fail>(m, "fail");
    rl::py::def<&fail_for_a_reason>(m, "fail_for_a_reason");
    rl::py::def<&burn>(m, "burn");
    rl::py::def<&burn_in_group>(m, "burn_in_group");
    rl::py::def<&spin>(m, "spin_held");
    rl::py::def<&spin, rl::py::gil::release>(m, "spin_released");
    rl::py::def<&spin, rl::py::gil::automatic>(m, "spin_automatic");
    rl::py::def<&count>(m, "count", binder::arg("end"), binder::arg("delay_ms") = 0);
    rl::py::def<&broken>(m, "broken");
    rl::py::def<&burning>(m, "burning");
    rl::py::def<&perhaps>(m, "perhaps");
    m.def("cleaned_up", [] { return std::exchange(cleaned_up, 0); });
    rl::py::def<&holding>(m, "holding");
    rl::py::def<&mean_of_doubles>(m, "mean");
    rl::py::def<&mean_of_floats>(m, "mean");
    rl::py::def<&raised>(m, "raised", binder::arg("all"), binder::arg("delay_ms") = 0);
    rl::py::def<&shape>(m, "shape");
    rl::py::def<&look_up>(m, "look_up");
    rl::py::def<&pass_on>(m, "pass_on", binder::arg("given"), binder::arg("delay_ms") = 0);
    m.def("sessions", [] { return session::living; });
}

inline void add_members(binder::class_<session>& s) {
    s.def(binder::init<std::string>());
    rl::py::def<&session::greet>(s, "greet", binder::arg("whom"));
    rl::py::def<&session::letters>(s, "letters");
    rl::py::def_context<&session::open, &session::close>(s);
}

inline void add_classes(binder::class_<derived> d, binder::class_<keeper> k) {
    d.def(binder::init<>());
    rl::py::def<&derived::what_name>(d, "what_name");
    rl::py::def<&derived::spelled>(d, "spelled");
    rl::py::def<&called_name>(d, "called_name", binder::arg("title") = "the");
    rl::py::def<&spelled_backwards>(d, "spelled_backwards");
    rl::py::def<[](derived& one) -> rl::task<std::size_t> { co_return one.own_name.size(); }>(
        d, "length");
    rl::py::def_context<&derived::enter, &derived::leave>(d);
    rl::py::def_static<&derived::made>(d, "made", binder::arg("its_name") = "new", "Makes one.");
    rl::py::def_static<&add>(d, "add");
    k.def(binder::init<>());
    rl::py::def<&keeper::open>(k, "open");
    rl::py::def<&keeper::use>(k, "use");
}

inline void add_points(binder::module_& m, binder::class_<point>& p) {
    p.def(binder::init<int, int>());
    rl::py::def<&reflected>(m, "reflected");
    rl::py::def<&moved>(m, "moved");
}

}  // namespace calls
