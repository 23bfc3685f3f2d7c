// Awaits of Python's awaitables, from the loop's thread and from other schedulers. Thread: the main
// one, and those of a pool.
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "scenario.hpp"

namespace {

namespace py = rl::py;
using std::chrono::milliseconds;

const char* const helper_text = R"(
import asyncio, contextvars, gc, threading
variable = contextvars.ContextVar('variable', default='unset')
cancelled = 0
thread = threading.get_ident()

async def double(value):
    await asyncio.sleep(0.001)
    assert threading.get_ident() == thread
    return value * 2

async def fails(text):
    await asyncio.sleep(0)
    raise ValueError(text)

async def never():
    global cancelled
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        cancelled += 1

async def stubborn():
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return 'all the same'

async def look():
    return variable.get()

async def count(end):
    for value in range(end):
        await asyncio.sleep(0)
        yield value

class Awaitable:
    def __await__(self):
        yield from asyncio.sleep(0).__await__()
        return 'by __await__'

def future_of(value):
    future = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.001, future.set_result, value)
    return future

def task_of(coroutine):
    return asyncio.get_running_loop().create_task(coroutine)

def cancel_soon(task):
    asyncio.get_running_loop().call_later(0.005, task.cancel)
    return task

def objects():
    gc.collect()
    return len(gc.get_objects())

def tasks():
    return len(asyncio.all_tasks())
)";

py::object helper(py::interpreter& python) {
    return python.exec("helper", helper_text);
}

std::string text_of(const py::ref& value) {
    const py::gil_scope gil;
    return py::from_python<std::string>(value.get());
}

// All that can be awaited, on the scheduler where this runs.
rl::task<void> each_kind(py::object with, py::loop where) {
    const int four = co_await py::await<int>(with.call("double", 2), where);
    CHECK(four == 4);
    const auto text = co_await py::await<std::string>(with.attr("Awaitable")(), where);
    CHECK(text == "by __await__");
    const auto untyped = co_await py::await(with.call("double", "ab"), where);
    CHECK(text_of(untyped) == "abab");
    co_await py::await<void>(with.call("double", 1), where);
    std::string failure;
    try {
        co_await py::await(with.call("fails", "why"), where);
    } catch (const py::error& error) {
        failure = error.what();
    }
    CHECK(failure == "ValueError: why");
    try {
        co_await py::await<std::int8_t>(with.call("double", 100), where);
        failure = "nothing";
    } catch (const py::error& error) {
        failure = error.type_name();
    }
    CHECK(failure == "OverflowError");
    auto values = py::iterate<int>(with.call("count", 4), where);
    int sum = 0;
    for (auto value = co_await values.next(); value; value = co_await values.next()) sum += *value;
    CHECK(sum == 6);
    try {
        co_await py::await(py::object(with.attr("double")), where);
        failure = "nothing";
    } catch (const py::error& error) {
        failure = error.type_name();
    }
    CHECK(failure == "TypeError");
}

rl::task<void> kinds(py::interpreter& python) {
    const py::object with = helper(python);
    co_await each_kind(with, {});
    co_await each_kind(with, python.loop());
    // Futures and tasks are made on the loop's thread.
    const int seven = co_await py::await<int>(with.call("future_of", 7));
    CHECK(seven == 7);
    const int six = co_await py::await<int>(with.call("task_of", with.call("double", 3)));
    CHECK(six == 6);
}

rl::task<void> elsewhere(py::interpreter& python) {
    const py::object with = helper(python);
    rl::scheduler_pool pool({.threads = 1, .placed = false});
    co_await rl::on(pool[0], each_kind(with, py::loop()));  // the await that led here
    co_await rl::on(pool[0], each_kind(with, python.loop()));
    // Threads that no await leads to.
    rl::remote_task<void> other = rl::spawn(pool[0], each_kind(with, python.loop()));
    while (!other.done()) co_await rl::sleep_for(milliseconds(1));
    other.get();
    std::string refused;
    rl::remote_task<void> lost = rl::spawn(pool[0], each_kind(with, py::loop()));
    while (!lost.done()) co_await rl::sleep_for(milliseconds(1));
    try {
        lost.get();
    } catch (const std::logic_error& error) {
        refused = error.what();
    }
    CHECK(refused.find("name the loop") != std::string::npos);
}

rl::task<std::string> visitor(py::object with) {
    co_await py::hold_gil();
    CHECK(py::holds_gil());
    co_return co_await py::await<std::string>(with.call("look"));
}

rl::task<void> visits(py::interpreter& python) {
    const py::object with = helper(python);
    rl::scheduler_pool pool({.threads = 1, .placed = false});
    auto away = [](py::loop home, py::object what) -> rl::task<std::string> {
        co_return co_await py::on(home, visitor(what));
    };
    rl::remote_task<std::string> answer = rl::spawn(pool[0], away(python.loop(), with));
    while (!answer.done()) co_await rl::sleep_for(milliseconds(1));
    CHECK(answer.get() == "unset");
    bool ran = false;
    CHECK(python.loop().post([&ran] { ran = py::holds_gil(); }));
    while (!ran) co_await rl::sleep_for(milliseconds(1));
}

rl::task<void> contexts(py::interpreter& python) {
    const py::object with = helper(python);
    const py::object context = python.import("contextvars").call("copy_context");
    context.call("run", with.attr("variable").attr("set"), "inside");
    const auto inside = co_await py::await<std::string>(with.call("look"), py::loop(), context);
    CHECK(inside == "inside");
    const auto named = co_await py::await<std::string>(with.call("look"), python.loop(), context);
    CHECK(named == "inside");
    const auto outside = co_await py::await<std::string>(with.call("look"));
    CHECK(outside == "unset");
}

rl::task<void> wait_for(py::object what, py::loop where) {
    co_await py::await(std::move(what), std::move(where));
}
rl::task<void> limited(py::object what, py::loop where, milliseconds limit, bool* ended) {
    try {
        co_await rl::with_timeout(limit, wait_for(std::move(what), std::move(where)));
    } catch (const rl::timed_out&) {
        *ended = true;
    }
}

rl::task<void> cancels(py::interpreter& python) {
    const py::object with = helper(python);
    rl::scheduler_pool pool({.threads = 1, .placed = false});
    int expected = 0;  // the limit is long enough for the task to have begun
    for (const bool away : {false, true}) {
        for (const bool named : {false, true}) {
            bool ended = false;
            auto work = limited(with.call("never"), named ? python.loop() : py::loop(),
                                milliseconds(100), &ended);
            if (away)
                co_await rl::on(pool[0], std::move(work));
            else
                co_await std::move(work);
            CHECK(ended);
            CHECK(with.attr("cancelled").as<int>() == ++expected);  // it was waited for
        }
    }
    // Python's side cancels the task that native code waits for.
    bool told = false;
    try {
        co_await py::await(with.call("cancel_soon", with.call("task_of", with.call("never"))));
    } catch (const rl::operation_cancelled&) {
        told = true;
    }
    CHECK(told);
    CHECK(with.call("tasks").as<int>() == 1);
}

rl::task<void> one_cancelled(py::object what, std::stop_token token) {
    try {
        co_await rl::with_stop(token, wait_for(std::move(what), py::loop()));
    } catch (const rl::operation_cancelled&) {
    }
}

rl::task<void> away(rl::scheduler& there, rl::task<void> work) {
    co_await rl::on(there, std::move(work));
}

rl::task<void> both(rl::task<void> one, rl::task<void> other) {
    auto start = [&](rl::task_group& group) -> rl::task<void> {
        group.spawn(std::move(one));
        group.spawn(std::move(other));
        co_return;
    };
    co_await rl::with_group(start);
}

rl::task<void> many_cancels(py::interpreter& python) {
    const py::object with = helper(python);
    rl::scheduler_pool pool({.threads = 1, .placed = false});
    int before = 0;
    for (int round = 0; round < 11; ++round) {
        if (round == 1) before = with.call("objects").as<int>();
        for (int i = 0; i < 1000; ++i) {
            std::stop_source source;
            auto stop = [](std::stop_source stopped, int turns) -> rl::task<void> {
                for (int n = 0; n < turns; ++n)
                    co_await rl::sleep_for(std::chrono::microseconds(1));
                stopped.request_stop();
            };
            auto work = one_cancelled(with.call("never"), source.get_token());
            if (i % 4 == 3) work = away(pool[0], std::move(work));
            co_await both(std::move(work), stop(source, i % 3));
        }
    }
    co_await py::await(python.import("asyncio").call("sleep", 0.01));
    const int after = with.call("objects").as<int>();
    CHECK(after - before < 50);
    CHECK(with.call("tasks").as<int>() == 1);
}

template <rl::task<void> (*App)(py::interpreter&)>
int hosts(const arguments&) {
    return py::run(App);
}
const scenario all[] = {{"kinds", &hosts<kinds>},     {"elsewhere", &hosts<elsewhere>},
                        {"visits", &hosts<visits>},   {"contexts", &hosts<contexts>},
                        {"cancels", &hosts<cancels>}, {"many_cancels", &hosts<many_cancels>}};

}  // namespace
