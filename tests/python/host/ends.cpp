// The end of a program that hosts Python, in each way, with each kind of work about: ends WAY
// STATE. Prints "leaving SECONDS" (of the monotonic clock) right before.
// Thread: the main one, or one beside it; and those that the states begin.
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "scenario.hpp"

namespace {

namespace py = rl::py;
using std::chrono::milliseconds;

void leaving() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    std::printf("leaving %.6f\n", std::chrono::duration<double>(now).count());
    std::fflush(stdout);
}

// Objects that end after the interpreter.
struct keeper {
    std::vector<py::object> objects;
    std::vector<rl::generator<int>> generators;
    py::loop loop;
};
keeper kept;

const char* const helper_text = R"(
import asyncio, atexit, contextlib, sys, threading, time
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
left = []

def work(n):
    return sum(range(n))

async def answers():
    await asyncio.sleep(0)
    return 42

async def count():
    for value in range(1000):
        try:
            yield value
        finally:
            await asyncio.sleep(0)

async def stubborn():
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.001)

async def tasks():
    left.append(asyncio.create_task(stubborn()))
    left.append(asyncio.create_task(asyncio.sleep(3600)))
    values = count()
    left.append((values, await values.__anext__()))
    left.append(asyncio.get_running_loop().run_in_executor(None, time.sleep, 0.1))
    await asyncio.sleep(0)

async def children():
    child = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)
    left.append((child, asyncio.create_task(child.communicate())))
    left.append(asyncio.create_task(asyncio.create_subprocess_exec('cat', stdin=-1)))
    await asyncio.sleep(0)

async def sockets():
    server = await asyncio.start_server(lambda reader, writer: None, '127.0.0.1', 0)
    left.append((server, await asyncio.open_connection(*server.sockets[0].getsockname())))
    left.append(asyncio.create_task(left[-1][1][0].read()))
    await asyncio.sleep(0)

def forever():
    while True:
        time.sleep(0.001)

def daemons():
    threading.Thread(target=forever, daemon=True).start()
    atexit.register(work, 10)

def subinterpreter(text):
    made = interpreters.create()
    failure = interpreters.run_string(made, text)
    assert failure is None, failure
    if sys.version_info < (3, 13):      # those do not end what is left
        interpreters.destroy(made)
)";

// ---- what is about

using state = rl::task<void> (*)(py::interpreter&, py::object);

rl::task<void> idle(py::interpreter&, py::object) {
    co_return;
}
// Native threads that call Python, post to its loop, and go on after it.
rl::task<void> threads(py::interpreter& python, py::object helper) {
    static std::atomic<int> busy{0};
    for (int i = 0; i < 2; ++i)
        std::thread([helper, home = python.loop()] {
            try {
                for (;; ++busy) {
                    helper.call("work", 1000);
                    home.post([] {});
                }
            } catch (const py::interpreter_ended&) {
            }
            while (true) std::this_thread::sleep_for(milliseconds(100));
        }).detach();
    std::thread([] {
        try {
            const py::gil_scope gil;
            PyRun_SimpleString("import time\nwhile True: time.sleep(0.01)");
        } catch (const py::interpreter_ended&) {  // the end was faster
        }
    }).detach();
    while (busy < 2) co_await rl::sleep_for(milliseconds(1));
}
// Native threads with schedulers of their own, which await Python.
rl::task<void> visitors(py::interpreter& python, py::object helper) {
    static std::atomic<int> busy{0};
    auto visit = [](py::object with, py::loop home) -> rl::task<void> {
        for (;; ++busy) co_await py::await<int>(with.call("answers"), home);
    };
    for (int i = 0; i < 2; ++i)
        std::thread([visit, helper, home = python.loop()] {
            try {
                rl::sync_wait(visit(helper, home));
            } catch (const rl::operation_cancelled&) {  // the loop is closed
            } catch (const py::interpreter_ended&) {
            }
            while (true) std::this_thread::sleep_for(milliseconds(100));
        }).detach();
    while (busy < 2) co_await rl::sleep_for(milliseconds(1));
}
rl::task<void> offloaded(py::interpreter&, py::object) {
    static std::atomic<bool> begun{false};
    std::thread([] {  // a scheduler whose worker goes on for longer than the process
        auto work = []() -> rl::task<void> {
            co_await rl::offload([] {
                begun = true;
                while (true) std::this_thread::sleep_for(milliseconds(100));
            });
        };
        rl::sync_wait(work());
    }).detach();
    while (!begun) co_await rl::sleep_for(milliseconds(1));
}
rl::task<void> statics(py::interpreter& python, py::object helper) {
    kept.objects.push_back(python.eval("[1]"));
    kept.objects.push_back(helper);
    kept.loop = python.loop();
    kept.generators.push_back(py::iterate<int>(helper.call("count")));
    const auto first = co_await kept.generators.back().next();
    CHECK(first == 0);
}
rl::task<void> in_python(py::interpreter&, py::object helper) {
    co_await py::await(helper.call("tasks"));
    co_await py::await(helper.call("sockets"));
    helper.call("daemons");
}
rl::task<void> children(py::interpreter&, py::object helper) {
    co_await py::await(helper.call("children"));
}
rl::task<void> subinterpreter(py::interpreter&, py::object helper) {
    helper.call("subinterpreter", "import asyncio, json\nasyncio.run(asyncio.sleep(0.001))");
    co_return;
}
constexpr state each_of_them[] = {&threads,   &visitors, &offloaded,     &statics,
                                  &in_python, &children, &subinterpreter};
rl::task<void> all_of_it(py::interpreter& python, py::object helper) {
    for (const state each : each_of_them) co_await each(python, helper);
}
const std::map<std::string, state> states{
    {"idle", &idle},           {"threads", &threads},     {"visitors", &visitors},
    {"offloaded", &offloaded}, {"statics", &statics},     {"in_python", &in_python},
    {"children", &children},   {"subinterpreter", &subinterpreter},
    {"all", &all_of_it}};

// ---- the ends

struct on_purpose : std::runtime_error {
    on_purpose() : runtime_error("on purpose") {}
};

rl::task<int> end_inside(py::interpreter& python, std::string way, state about) {
    const py::object helper = python.exec("helper", helper_text);
    co_await about(python, helper);
    leaving();
    if (way == "throw") throw on_purpose();
    if (way == "raise") python.eval("1 / 0");
    if (way == "sys-exit") python.import("sys").call("exit", 7);
    if (way == "exit-inside") std::exit(4);
    if (way == "terminate" || way == "interrupt") {
        std::raise(way == "terminate" ? SIGTERM : SIGINT);
        co_await rl::sleep_for(std::chrono::hours(1));
    }
    co_return way == "code" ? 5 : 0;
}

int end_one(const std::string& way, state about) {
    const auto app = [&](py::interpreter& python) { return end_inside(python, way, about); };
    try {
        return py::run(app);
    } catch (const on_purpose&) {
        return 11;
    } catch (const py::error& raised) {
        return raised.type_name() == "ZeroDivisionError" ? 12 : 13;
    }
}
int again(state about) {
    for (int i = 0; i < 3; ++i) {
        const int code = end_one(i == 1 ? "throw" : "return", about);
        if (code != (i == 1 ? 11 : 0)) return code;
    }
    return 0;
}

int ends(const arguments& given) {
    const std::string way = given.at(0);
    const state about = states.at(given.at(1));
    if (way == "again") return again(about);
    if (way == "thread") {  // Python is that thread's, which is over when the process ends
        int code = 0;
        std::thread([&] { code = end_one("return", about); }).join();
        return code;
    }
    const int code = end_one(way, about);
    if (way == "exit") std::exit(3);
    if (way == "quick") std::_Exit(6);
    return code;
}
const scenario all[] = {{"ends", &ends}};

}  // namespace
