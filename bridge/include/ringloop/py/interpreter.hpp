// py::interpreter: Python in a process whose main() is native. py::run() hands it out.
//
//     auto http = python.import("aiohttp_client_demo");
//     auto both = python.eval("a + b", py::named("a", 1), py::named("b", 2)).as<int>();
//     auto rules = python.exec("rules", text);          // a module of its own, in no sys.modules
//
// It is started once in a process, by the first run(), and goes on between runs and until the
// process ends: std::exit() and the end of main() finalize it, on the thread that started it.
// Native threads may be busy then. From the moment it ends they get interpreter_ended; who is
// inside is waited for, half a second at most. Where Python was there already (this is an extension
// module, or the program has initialized Python itself) that interpreter is used, and its end is
// its owner's.
//
// Thread: every member from any, with or without the GIL; what they throw is as object's.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringloop/py/loop.hpp"
#include "ringloop/py/object.hpp"

namespace ringloop::py {

struct run_options {
    std::vector<std::string> arguments{};    // sys.argv; none: that of Python's owner stays
    std::vector<std::string> search_path{};  // folders in front of sys.path
    // The Python command whose library and packages are used, as in a virtual environment. Empty:
    // that of the build, if it is there. For the process's first run.
    std::string python{};
    // No environment variables, no user's folder of packages. For the process's first run.
    bool isolated = false;
    bool debug = false;     // asyncio's debug mode
    std::string backend{};  // of the loop: "uring", "epoll"; empty: as ringloop.new_event_loop()
};

class interpreter {
  public:
    [[nodiscard]] object import(const char* module) const {
        const gil_scope gil;
        return object(detail::made(PyImport_ImportModule(module)));
    }
    // The value of an expression; named() gives it names.
    template <class... T>
    object eval(const char* expression, named_value<T>... names) const {
        const gil_scope gil;
        const ref module = new_module("eval");
        return object(run("eval", expression, Py_eval_input, module.get(), std::move(names)...));
    }
    // Runs statements as a new module, and returns it.
    template <class... T>
    object exec(const char* name, std::string_view statements, named_value<T>... names) const {
        const gil_scope gil;
        ref module = new_module(name);
        static_cast<void>(run(name, std::string(statements).c_str(), Py_file_input, module.get(),
                              std::move(names)...));
        return object(std::move(module));
    }
    // A Python object of a native value (value.hpp).
    template <class T>
    [[nodiscard]] object from(T&& value) const {
        const gil_scope gil;
        return object(to_python(std::forward<T>(value)));
    }
    // The loop of the run, for threads that are not its own.
    [[nodiscard]] const py::loop& loop() const noexcept { return loop_; }

  private:
    template <class App>
    friend class host_run;

    [[nodiscard]] static ref new_module(const char* name) {
        ref module = detail::made(PyModule_New(name));
        PyObject* const names = PyModule_GetDict(module.get());
        if (PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) < 0)
            throw error::take();
        return module;
    }
    template <class... T>
    [[nodiscard]] static ref run(const char* name, const char* source, int kind, PyObject* module,
                                 named_value<T>... names) {
        PyObject* const globals = PyModule_GetDict(module);
        const auto add = [globals](const char* as, const ref& value) {
            if (PyDict_SetItemString(globals, as, value.get()) < 0) throw error::take();
        };
        (add(names.name, to_python(std::move(names.value))), ...);
        static_cast<void>(add);
        const std::string file = "<" + std::string(name) + ">";
        const ref code = detail::made(Py_CompileString(source, file.c_str(), kind));
        return detail::made(PyEval_EvalCode(code.get(), globals, globals));
    }
    py::loop loop_;
};

namespace detail {

// The one interpreter of the process, if this program started it.
class hosted_python {
  public:
    static hosted_python& get() noexcept {
        static auto* const made = new hosted_python;  // threads may outlive everything
        return *made;
    }
    // Started by a run of this program's.
    [[nodiscard]] bool is_ours() const noexcept { return started_; }
    // Of one run.
    class use {
      public:
        explicit use(const run_options& options) {
            get().start(options);
            get().running_.fetch_add(1);
        }
        ~use() { get().running_.fetch_sub(1); }
        use(const use&) = delete;
        use& operator=(const use&) = delete;
    };

  private:
    // The interpreter is there afterwards. GIL not held, nor afterwards.
    void start(const run_options& options) {
        const std::lock_guard lock(mutex_);
        if (door.closed.load() || (started_ && Py_IsInitialized() == 0)) throw interpreter_ended();
        if (started_) {
            if (options.isolated != isolated_ ||
                (!options.python.empty() && options.python != python_))
                throw std::logic_error(
                    "ringloop::py::run: this process's interpreter has been started with other "
                    "options (python, isolated), which cannot change any more");
        } else if (Py_IsInitialized() == 0) {
            isolated_ = options.isolated;
            python_ = options.python;
            initialize();
            started_ = true;
            thread_ = std::this_thread::get_id();
            PyEval_SaveThread();
            std::atexit([] { get().end(); });
        }
    }
    static void check(const PyStatus& status, PyConfig& config) {
        if (PyStatus_Exception(status) == 0) return;
        const std::string text = status.err_msg != nullptr ? status.err_msg : "exit requested";
        PyConfig_Clear(&config);
        throw std::runtime_error("ringloop::py::run: Python does not start: " + text);
    }
    void initialize() const {
        PyConfig config;
        if (isolated_)
            PyConfig_InitIsolatedConfig(&config);
        else
            PyConfig_InitPythonConfig(&config);
        config.parse_argv = 0;
        config.install_signal_handlers = 1;
        std::string command = python_;
#if defined(RINGLOOP_EMBED_PYTHON)
        if (command.empty() && std::filesystem::exists(RINGLOOP_EMBED_PYTHON))
            command = RINGLOOP_EMBED_PYTHON;
#endif
        if (!command.empty())
            check(PyConfig_SetBytesString(&config, &config.program_name, command.c_str()), config);
        check(Py_InitializeFromConfig(&config), config);
        PyConfig_Clear(&config);
    }

    // At the process's end. What it was waiting for, or in the middle of, is left as it is.
    void end() noexcept {
        if (std::this_thread::get_id() != thread_ || Py_IsInitialized() == 0) return;
        door.closed.store(true);
        if (running_ > 0) {  // exit() from inside a run: its frames are below this call
            leave();
            return;
        }
        const std::int64_t limit_ns = monotonic_ns() + 500'000'000;
        while (door.inside.load() != 0 && monotonic_ns() < limit_ns) std::this_thread::yield();
        PyGILState_Ensure();
        Py_FinalizeEx();
    }
    // What Python's own end would do first.
    static void leave() noexcept {
        const PyGILState_STATE state = PyGILState_Ensure();
        const ref atexit = ref::steal(PyImport_ImportModule("atexit"));
        const ref ran =
            atexit ? ref::steal(PyObject_CallMethod(atexit.get(), "_run_exitfuncs", nullptr))
                   : ref();
        PyErr_Clear();
        for (const char* name : {"stdout", "stderr"}) {
            PyObject* const file = PySys_GetObject(name);
            const ref done = file != nullptr && file != Py_None
                                 ? ref::steal(PyObject_CallMethod(file, "flush", nullptr))
                                 : ref();
            PyErr_Clear();
        }
        PyGILState_Release(state);
    }
    std::mutex mutex_;
    std::thread::id thread_;
    std::string python_;
    bool started_ = false;
    bool isolated_ = false;
    std::atomic<int> running_{0};
};

}  // namespace detail
}  // namespace ringloop::py
