// py::run: the main() of a native service that hosts Python.
//
//     rl::task<void> app(rl::py::interpreter& python) {
//         auto http = python.import("aiohttp_client_demo");
//         auto body = co_await rl::py::await<std::string>(http.call("get", "http://…"));
//     }
//     int main() { return rl::py::run(app); }
//
// Starts the interpreter, if it is the first (interpreter.hpp), makes one of ringloop's event loops
// and runs app(python), a task<void> or task<int>, on it: asyncio, its signals, its subprocesses
// and the program's own sockets are on one ring. The app may await Python and native operations
// alike, and ends as asyncio.run() does: what tasks are left are cancelled, asynchronous generators
// and the executor are shut down, the loop is closed. Runs may follow one another.
//
// SIGINT and SIGTERM ask the app to stop; a second one has its usual effect. (Where Python is in
// another thread than the main one, or the program has handlers of its own: those.) Afterwards the
// handlers are as before.
//
// Returns what the app returned (task<void>: 0), also 0 after such a stop; the code of a SystemExit
// of Python's. What the app throws otherwise is thrown here, the same object.
//
// The app's steps run without the GIL, or with it where they follow an await of Python's: object
// and interpreter take it themselves, gil_scope is for the rest of Python's C API.
// Thread: any without a running loop, the process's first one for signals; one at a time.
#pragma once

#include <Python.h>

#include <csignal>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "ringloop/py/await.hpp"
#include "ringloop/py/interpreter.hpp"
#include "ringloop/result.hpp"

namespace ringloop::py {

namespace detail {

struct signals_kept {
    signals_kept() noexcept {
        sigaction(SIGINT, nullptr, &interrupt);
        sigaction(SIGTERM, nullptr, &terminate);
    }
    ~signals_kept() {
        sigaction(SIGINT, &interrupt, nullptr);
        sigaction(SIGTERM, &terminate, nullptr);
    }
    signals_kept(const signals_kept&) = delete;
    signals_kept& operator=(const signals_kept&) = delete;
    struct sigaction interrupt {};
    struct sigaction terminate {};
};

}  // namespace detail

// One run(): its parts live in run()'s frame.
template <class App>
class host_run {
    using made = std::invoke_result_t<App&, interpreter&>;
    static_assert(std::is_same_v<made, task<void>> || std::is_same_v<made, task<int>>,
                  "ringloop::py::run: the app is a coroutine task<void> or task<int> app("
                  "ringloop::py::interpreter&)");

  public:
    host_run(App& app, const run_options& options) : app_(app), options_(options) {}

    int run() {
        std::optional<int> exit_code;
        {
            const gil_scope gil;
            if (import() < 0) throw error::take();
            const ref host = detail::made(PyImport_ImportModule("ringloop._host"));
            const ref answer = detail::made(start(host.get()));
            if (answer.get() != Py_None) exit_code = from_python<int>(answer.get());
        }
        if (exit_code) return *exit_code;
        try {
            outcome_.take();
        } catch (const operation_cancelled&) {
            if (!stopped_) throw;
        } catch (const error& raised) {
            if (const std::optional<int> code = exit_code_of(raised)) return *code;
            throw;
        }
        return code_;
    }

  private:
    struct to_none {
        static PyObject* value() noexcept { return nullptr; }  // of task<void>: not asked
        static void raise(const std::exception_ptr& failure,
                          const detail::export_info& about) noexcept {
            detail::raise(failure, about, nullptr);
        }
    };

    // 0, or -1 with an exception set. The package is that of the build where no other is found.
    [[nodiscard]] int import() const {
        const ref path = ref::share(PySys_GetObject("path"));
        if (!path || !PyList_Check(path.get())) {
            PyErr_SetString(PyExc_RuntimeError, "ringloop::py::run: sys.path is no list");
            return -1;
        }
        Py_ssize_t at = 0;
        for (const std::string& folder : options_.search_path) {
            const ref name = ref::steal(PyUnicode_DecodeFSDefault(folder.c_str()));
            const int known = name ? PySequence_Contains(path.get(), name.get()) : -1;
            if (known < 0 || (known == 0 && PyList_Insert(path.get(), at++, name.get()) < 0))
                return -1;
        }
#if defined(RINGLOOP_EMBED_PACKAGES)
        const ref name = ref::steal(PyUnicode_DecodeFSDefault(RINGLOOP_EMBED_PACKAGES));
        const int known = name ? PySequence_Contains(path.get(), name.get()) : -1;
        if (known < 0 || (known == 0 && PyList_Append(path.get(), name.get()) < 0)) return -1;
#endif
        return import_runtime();
    }
    [[nodiscard]] PyObject* start(PyObject* host) {
        static const detail::export_info about{"app", gil::release};
        const auto begin = [this]() { return guarded(); };
        using source = detail::task_source<to_none, decltype(begin)>;
        const ref awaitable =
            detail::made(runtime().new_awaitable(new (std::nothrow) source(about, begin)));
        // Where Python is somebody else's, so are its arguments, but for those that are asked for.
        const bool are_ours = detail::hosted_python::get().is_ours() || !options_.arguments.empty();
        const ref arguments = are_ours ? to_python(options_.arguments) : ref::share(Py_None);
        return PyObject_CallMethod(host, "run", "OOis", awaitable.get(), arguments.get(),
                                   options_.debug ? 1 : 0, options_.backend.c_str());
    }
    // Of a SystemExit.
    [[nodiscard]] static std::optional<int> exit_code_of(const error& raised) {
        const gil_scope gil;
        if (!raised.matches(PyExc_SystemExit)) return std::nullopt;
        const ref host = detail::made(PyImport_ImportModule("ringloop._host"));
        const ref code =
            detail::made(PyObject_CallMethod(host.get(), "code_of", "O", raised.value()));
        return from_python<int>(code.get());
    }
    // The app, its outcome kept on this side.
    task<void> guarded() {
        stop_scope* const scope = co_await current_scope();
        detail::task_base& source = detail::needed(co_await detail::find_source());
        try {
            take_loop(source.host());
            if constexpr (std::is_same_v<made, task<int>>)
                code_ = co_await app_(python_);
            else
                co_await app_(python_);
        } catch (...) {
            outcome_.set_error(std::current_exception());
        }
        stopped_ = scope->stop_requested();
    }
    void take_loop(bridge::loop_host& host) {
        const gil_scope gil;
        python_.loop_ = loop(host.loop());
    }

    App& app_;
    const run_options& options_;
    interpreter python_;
    ringloop::result<void> outcome_;
    int code_ = 0;
    bool stopped_ = false;
};

template <class App>
int run(App app, const run_options& options = {}) {
    const detail::signals_kept signals;  // Python's start changes them, too
    const detail::hosted_python::use python(options);
    return host_run<App>(app, options).run();
}

}  // namespace ringloop::py
