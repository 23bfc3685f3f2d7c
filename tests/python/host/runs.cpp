// Starts, stops and ends. Thread: the main one, and native threads that know Python.
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "scenario.hpp"

namespace {

namespace py = rl::py;
using std::chrono::milliseconds;

rl::task<int> once(py::interpreter& python) {
    const py::object asyncio = python.import("asyncio");
    co_await py::await(asyncio.call("sleep", 0.0001));
    asyncio.call("ensure_future", asyncio.call("sleep", 1000));  // left to the run's end
    co_return 5;
}
// Each run leaves descriptors and threads as they were.
int cycles(const arguments& given) {
    const int count = given.empty() ? 30 : std::stoi(given[0]);
    const auto descriptors = [] {
        int found = 0;
        for (int fd = 0; fd < 200; ++fd) found += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
        return found;
    };
    struct sigaction before {
    }, after{};
    sigaction(SIGINT, nullptr, &before);
    int first = 0;
    for (int i = 0; i < count; ++i) {
        CHECK(py::run(once) == 5);
        if (i == 0) first = descriptors();
    }
    CHECK(descriptors() == first);
    sigaction(SIGINT, nullptr, &after);
    CHECK(before.sa_handler == after.sa_handler);
    return 0;
}

rl::task<void> nothing(py::interpreter&) {
    co_return;
}
int options(const arguments&) {
    auto look = [](py::interpreter& python) -> rl::task<void> {
        const py::object sys = python.import("sys");
        CHECK(sys.attr("argv").as<std::vector<std::string>>() ==
              std::vector<std::string>{"program", "--flag"});
        CHECK(sys.attr("path")[0].as<std::string>() == "/first");
        CHECK(sys.attr("path")[1].as<std::string>() == "/second");
        CHECK(sys.attr("flags").attr("isolated").as<int>() == 1);
        CHECK(python.import("asyncio").call("get_running_loop").call("get_debug").as<bool>());
        co_return;
    };
    py::run_options wanted;
    wanted.arguments = {"program", "--flag"};
    wanted.search_path = {"/first", "/second"};
    wanted.isolated = true;
    wanted.debug = true;
    CHECK(py::run(look, wanted) == 0);
    std::string refused;
    try {
        py::run(nothing);
    } catch (const std::logic_error& error) {
        refused = error.what();
    }
    CHECK(refused.find("other options") != std::string::npos);
    wanted.backend = "neither";
    try {
        py::run(nothing, wanted);
        refused = "nothing";
    } catch (const py::error& error) {
        refused = error.what();
    }
    CHECK(refused.find("ValueError") == 0 || refused.find("neither") != std::string::npos);
    return 0;
}

// The program has initialized Python itself: its modules stay, and its end is its own.
int guest(const arguments&) {
    Py_InitializeEx(0);
    PyRun_SimpleString(
        "import sys; sys.modules['host'] = sys; sys.path.append('" RINGLOOP_EMBED_PACKAGES "')");
    PyThreadState* const thread = PyEval_SaveThread();
    CHECK(py::run(once) == 5);
    CHECK(py::run(once) == 5);
    PyEval_RestoreThread(thread);
    PyRun_SimpleString("assert sys.modules['host'] is sys");
    CHECK(Py_FinalizeEx() == 0);
    try {
        const py::gil_scope gil;
    } catch (const py::interpreter_ended&) {
        return 0;
    }
    return 1;
}
// Python anew after that: refused in words, nothing crashes.
int reborn(const arguments&) {
    for (int i = 0; i < 2; ++i) {
        Py_InitializeEx(0);
        PyRun_SimpleString("import sys; sys.path.append('" RINGLOOP_EMBED_PACKAGES "')");
        PyThreadState* const thread = PyEval_SaveThread();
        std::string refused;
        try {
            py::run(once);
        } catch (const std::exception& error) {
            refused = error.what();
        }
        CHECK((i == 0) == refused.empty());
        if (i == 1) std::printf("%s\n", refused.c_str());
        PyEval_RestoreThread(thread);
        Py_FinalizeEx();
    }
    return 0;
}

// Says that it is there, and waits for a signal.
rl::task<void> serve(py::interpreter& python) {
    std::printf("ready\n");
    std::fflush(stdout);
    try {
        co_await py::await(python.import("asyncio").call("sleep", 1000));
    } catch (const rl::operation_cancelled&) {
        std::printf("stopping\n");
        std::fflush(stdout);
        throw;
    }
}
int serves(const arguments&) {
    const int code = py::run(serve);
    std::printf("stopped\n");
    return code;
}
rl::task<void> exits_in_python(py::interpreter& python) {
    co_await py::await(
        python.exec("ends", "import sys\nasync def end(): sys.exit(7)\n").call("end"));
}
rl::task<void> raises_exit(py::interpreter& python) {
    python.import("sys").call("exit", 6);
    co_return;
}
rl::task<void> exits_inside(py::interpreter& python) {
    python.import("builtins").call("print", "printed");
    co_await py::await(python.import("asyncio").call("sleep", 0.001));
    std::exit(4);
}

// ---- the process ends, one way or the other, with threads busy in Python

struct keeper {
    py::object object;
    ~keeper() { object = py::object(); }
};
keeper kept;  // ends after the interpreter
std::atomic<bool> busy{false};

rl::task<void> starts_threads(py::interpreter& python) {
    kept.object = python.eval("[1]");
    const py::object module = python.exec("work", "def work(n):\n    return sum(range(n))\n");
    for (int i = 0; i < 3; ++i)
        std::thread([module, home = python.loop()] {
            try {
                while (true) {
                    module.call("work", 1000);
                    home.post([] {});
                    busy = true;
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
    python.exec("daemons", R"(
import atexit, threading, time
def forever():
    while True: time.sleep(0.001)
threading.Thread(target=forever, daemon=True).start()
atexit.register(print, 'atexit')
)");
    while (!busy) co_await rl::sleep_for(milliseconds(1));
}
int ends(const arguments& given) {
    const std::string way = given.empty() ? "return" : given[0];
    if (way == "throw") {
        auto throwing = [](py::interpreter& python) -> rl::task<void> {
            co_await starts_threads(python);
            throw std::runtime_error("on purpose");
        };
        try {
            py::run(throwing);
        } catch (const std::runtime_error&) {
        }
        return 0;
    }
    if (way == "inside") {
        auto exiting = [](py::interpreter& python) -> rl::task<void> {
            co_await starts_threads(python);
            std::exit(0);
        };
        return py::run(exiting);
    }
    const int code = py::run(starts_threads);
    if (way == "exit") std::exit(0);
    if (way == "quick") std::_Exit(0);
    if (way == "again") return py::run(nothing);
    return code;
}

template <auto App>
int hosts(const arguments&) {
    return py::run(App);
}
const scenario all[] = {{"cycles", &cycles},
                        {"options", &options},
                        {"guest", &guest},
                        {"reborn", &reborn},
                        {"serves", &serves},
                        {"exits_in_python", &hosts<exits_in_python>},
                        {"raises_exit", &hosts<raises_exit>},
                        {"exits_inside", &hosts<exits_inside>},
                        {"ends", &ends}};

}  // namespace
