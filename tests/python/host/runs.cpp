// Starts, stops and ends. Thread: the main one, and native threads that know Python.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "scenario.hpp"

namespace {

namespace py = rl::py;

rl::task<int> once(py::interpreter& python) {
    const py::object asyncio = python.import("asyncio");
    co_await py::await(asyncio.call("sleep", 0.0001));
    asyncio.call("ensure_future", asyncio.call("sleep", 1000));  // left to the run's end
    co_return 5;
}
// Each run leaves descriptors, handlers and memory as they were.
int cycles(const arguments& given) {
    const int count = given.empty() ? 30 : std::stoi(given[0]);
    const auto descriptors = [] {
        int found = 0;
        for (int fd = 0; fd < 200; ++fd) found += ::fcntl(fd, F_GETFD) >= 0 ? 1 : 0;
        return found;
    };
    const auto resident_kib = [] {
        std::ifstream statm("/proc/self/statm");
        long all = 0, resident = 0;
        statm >> all >> resident;
        return resident * (::sysconf(_SC_PAGESIZE) / 1024);
    };
    struct sigaction before {
    }, after{};
    sigaction(SIGINT, nullptr, &before);
    int first = 0;
    long first_kib = 0;
    for (int i = 0; i < count; ++i) {
        CHECK(py::run(once) == 5);
        if (i == 0) first = descriptors();
        if (i == 9) first_kib = resident_kib();
    }
    CHECK(descriptors() == first);
    sigaction(SIGINT, nullptr, &after);
    CHECK(before.sa_handler == after.sa_handler);
    if (!given.empty()) CHECK(resident_kib() - first_kib < 5 * 1024);
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

// asyncio's processes and signals are on the run's ring, in a run of another thread, too.
const char* const processes_text = R"(
import asyncio, os, signal, threading
async def processes():
    child = await asyncio.create_subprocess_exec('cat', stdin=-1, stdout=-1)
    said, _ = await child.communicate(b'hello')
    assert (said, child.returncode) == (b'hello', 0), (said, child.returncode)
    child = await asyncio.create_subprocess_shell('ls /proc/self/fd; exit 3', stdout=-1)
    said, _ = await child.communicate()
    # 0 to 2, and the folder itself: it has inherited nothing of ours.
    assert (said.split(), child.returncode) == (b'0 1 2 3'.split(), 3), (said, child.returncode)
    child = await asyncio.create_subprocess_exec('sleep', '3600')
    child.terminate()
    assert await child.wait() == -signal.SIGTERM
    many = [await asyncio.create_subprocess_exec('true') for _ in range(10)]
    assert await asyncio.gather(*(each.wait() for each in many)) == [0] * 10
async def signals():
    if threading.current_thread() is not threading.main_thread():
        return
    loop, got = asyncio.get_running_loop(), asyncio.Queue()
    loop.add_signal_handler(signal.SIGUSR1, got.put_nowait, 'one')
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert await asyncio.wait_for(got.get(), 30) == 'one'
    assert loop.remove_signal_handler(signal.SIGUSR1)
    assert signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL
)";
rl::task<void> uses_processes(py::interpreter& python) {
    const py::object module = python.exec("processes", processes_text);
    co_await py::await(module.call("processes"));
    co_await py::await(module.call("signals"));
}
int processes(const arguments&) {
    CHECK(py::run(uses_processes) == 0);
    std::string failed;
    std::thread([&failed] {
        try {
            py::run(uses_processes);
        } catch (const std::exception& error) {
            failed = error.what();
        }
    }).join();
    CHECK(failed.empty());
    return py::run(uses_processes);
}

// Subinterpreters, those with a GIL of their own too: they work beside a run, ringloop in them is
// refused in words, and so is native code that stands in one and asks for the main one's objects.
const char* const subinterpreters_text = R"(
import sys
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def create(isolated):
    if sys.version_info >= (3, 13):
        return interpreters.create('isolated' if isolated else 'legacy')
    return interpreters.create(isolated=isolated)

def inside(isolated):
    made = create(isolated)
    text = 'import sys; sys.path[:] = %r\n' % sys.path + """
try:
    import ringloop
except ImportError as error:
    assert 'interpreter' in str(error), error
else:
    raise SystemError('it was imported')
"""
    failure = interpreters.run_string(made, text)
    assert failure is None, failure
    interpreters.destroy(made)
)";
std::string refusal_inside() {
    std::string refused;
    PyThreadState* const here = PyThreadState_Get();
    PyThreadState* const sub = Py_NewInterpreter();
    CHECK(sub != nullptr);
    try {
        const py::gil_scope gil;
    } catch (const std::logic_error& error) {
        refused = error.what();
    }
    Py_EndInterpreter(sub);
    PyThreadState_Swap(here);
    return refused;
}
rl::task<void> has_subinterpreters(py::interpreter& python) {
    const py::object module = python.exec("inside", subinterpreters_text);
    for (int i = 0; i < 4; ++i) {
        module.call("inside", i % 2 == 1);
        co_await py::await(python.import("asyncio").call("sleep", 0.0001));
    }
    const py::gil_scope gil;
    CHECK(refusal_inside().find("subinterpreter") != std::string::npos);
}

// The program has initialized Python itself: its modules and its arguments stay, and its end is its
// own.
int guest(const arguments&) {
    Py_InitializeEx(0);
    PyRun_SimpleString(
        "import sys, asyncio, json; sys.argv = ['mine', 'too']\n"
        "sys.modules['host'] = sys; sys.path.append('" RINGLOOP_EMBED_PACKAGES
        "')\n"
        "before = dict(sys.modules); argv = sys.argv; path = list(sys.path)");
    PyThreadState* const thread = PyEval_SaveThread();
    CHECK(py::run(once) == 5);
    CHECK(py::run(once) == 5);
    PyEval_RestoreThread(thread);
    CHECK(PyRun_SimpleString("assert all(sys.modules[name] is before[name] for name in before)\n"
                             "assert sys.argv is argv == ['mine', 'too'], sys.argv\n"
                             "assert sys.path == path, sys.path") == 0);
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

template <auto App>
int hosts(const arguments&) {
    return py::run(App);
}
const scenario all[] = {{"cycles", &cycles},
                        {"options", &options},
                        {"guest", &guest},
                        {"processes", &processes},
                        {"subinterpreters", &hosts<has_subinterpreters>},
                        {"reborn", &reborn},
                        {"serves", &serves},
                        {"exits_in_python", &hosts<exits_in_python>},
                        {"raises_exit", &hosts<raises_exit>},
                        {"exits_inside", &hosts<exits_inside>}};

}  // namespace
