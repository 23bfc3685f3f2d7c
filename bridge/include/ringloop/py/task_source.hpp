// task_source: a coroutine as the work of a ringloop.Awaitable.
//
// It begins at the first await, on the loop's thread, inside the await: what ends without waiting
// for anything costs the loop no turn. What waits goes on in the native phase of later turns, with
// or without the GIL, and its outcome is delivered with it.
//
// Cancel: a stop request in the coroutine's scope; the await ends when the coroutine has. Then
// CancelledError, unless the coroutine failed in another way, which is raised instead; a value is
// dropped (but for a generator's: iterator.hpp).
// Thread: the loop's. start(), result() and the destructor hold the GIL.
#pragma once

#include <Python.h>

#include <coroutine>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/error.hpp"
#include "ringloop/py/export_info.hpp"
#include "ringloop/py/outcome.hpp"
#include "ringloop/py/ref.hpp"
#include "ringloop/py/visit.hpp"
#include "ringloop/result.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"
#include "ringloop/task_group.hpp"

namespace ringloop::py::detail {

// A wait for something of Python's (await.hpp), known to the await that it stands under. Destroyed
// while it is linked it takes itself out. GIL.
class python_wait {
  public:
    python_wait(const python_wait&) = delete;
    python_wait& operator=(const python_wait&) = delete;
    // Another cancel came, the loop is closing, or the process has forked.
    void cancel_again() noexcept { again_(*this); }
    void link(python_wait*& all) noexcept {
        to_ = &all;
        next_ = all;
        if (next_ != nullptr) next_->to_ = &next_;
        all = this;
    }
    [[nodiscard]] python_wait* next() const noexcept { return next_; }

  protected:
    explicit python_wait(void (*again)(python_wait&) noexcept) noexcept : again_(again) {}
    ~python_wait() { unlink(); }
    void unlink() noexcept {
        if (to_ == nullptr) return;
        *to_ = next_;
        if (next_ != nullptr) next_->to_ = to_;
        to_ = nullptr;
    }

  private:
    void (*again_)(python_wait&) noexcept;
    python_wait** to_ = nullptr;
    python_wait* next_ = nullptr;
};

// What does not depend on the coroutine's type.
class task_base : public bridge::source {
  public:
    explicit task_base(const export_info& about) noexcept : about_(about) {
        scope_.set_owner(this);
    }

    void request_cancel() noexcept final {
        {
            const scheduler::entry inside(host_->native());
            if (scope_.stop_requested())
                cancel_waits();
            else
                scope_.request_stop();
        }
        host_->submitted();
    }
    void collect() noexcept final;
    void left_behind() noexcept final { cancel_waits(); }
    int traverse(visitproc visit, void* arg) noexcept override {
        Py_VISIT(self_.get());
        Py_VISIT(context_.get());
        return 0;
    }
    // From here on other threads' collections may see it in the middle of a step without the GIL.
    [[nodiscard]] bool begun() const noexcept { return host_ != nullptr; }
    [[nodiscard]] bool failed() const noexcept final { return failed_; }
    [[nodiscard]] const char* name() const noexcept final { return about_.name; }
    [[nodiscard]] bool warns() const noexcept final { return true; }

    // The contextvars.Context of the await; borrowed. Null: no memory, or nobody awaits any more.
    // GIL while the first step runs.
    [[nodiscard]] PyObject* context() noexcept {
        if (inside_start_ && !context_) {
            context_ = ref::steal(PyContext_CopyCurrent());
            PyErr_Clear();
        }
        // Once the await is parked, the one in which its task will go on: no copy is needed.
        return context_ ? context_.get() : owner_->context;
    }
    [[nodiscard]] bridge::loop_host& host() noexcept { return *host_; }
    // Debug mode: where its awaitable was made, as lines of a traceback; null: not known.
    [[nodiscard]] const std::string* site() const noexcept { return site_.get(); }
    // From here to its end the wait hears of each further cancel, and of the loop's end. GIL.
    void add(python_wait& wait) noexcept { wait.link(waits_); }
    // Keeps the bound object of a member coroutine alive. GIL.
    void keep(ref object) noexcept { self_ = std::move(object); }

  protected:
    // The coroutine around the task; when it has ended, so has the task, frame and all.
    struct root {
        struct promise_type : ringloop::detail::promise_base {
            struct ending {
                [[nodiscard]] bool await_ready() const noexcept { return false; }
                void await_suspend(std::coroutine_handle<promise_type> handle) const noexcept {
                    handle.promise().owner->ended();
                }
                void await_resume() const noexcept {}
            };
            template <class Source>
            explicit promise_type(Source& source) noexcept : owner(&source) {}
            root get_return_object() noexcept {
                return {std::coroutine_handle<promise_type>::from_promise(*this)};
            }
            std::suspend_always initial_suspend() const noexcept { return {}; }
            ending final_suspend() const noexcept { return {}; }
            void return_void() const noexcept {}
            void unhandled_exception() const noexcept { std::terminate(); }
            task_base* owner;
        };
        std::coroutine_handle<promise_type> handle;
    };
    ~task_base() override {
        if (root_) root_.destroy();
    }
    void begin(bridge::loop_host& host, bridge::awaitable& owner,
               std::coroutine_handle<root::promise_type> coroutine) noexcept;
    void debug() noexcept;
    void set_failed() noexcept { failed_ = true; }
    [[nodiscard]] stop_scope& scope() noexcept { return scope_; }
    [[nodiscard]] const export_info& about() const noexcept { return about_; }

  private:
    struct return_home : posted {
        explicit return_home(task_base& source) noexcept
            : posted([](posted& node) noexcept {
                  runtime().finish(*static_cast<return_home&>(node).self.owner_);
              }),
              self(source) {}
        task_base& self;
    };
    void cancel_waits() noexcept {
        for (python_wait* each = waits_; each != nullptr; each = each->next()) each->cancel_again();
    }
    void ended() noexcept {
        host_->native().note_end(this);
        if (inside_start_)
            ended_at_once_ = true;
        else if (holds_gil())
            runtime().finish(*owner_);  // this source, and the coroutine's frame, may be gone
        else
            host_->native().post_host(home_);
    }

    const export_info& about_;
    stop_scope scope_;
    bridge::loop_host* host_ = nullptr;
    bridge::awaitable* owner_ = nullptr;
    std::coroutine_handle<root::promise_type> root_;
    python_wait* waits_ = nullptr;
    return_home home_{*this};
    ref self_;
    ref context_;
    std::unique_ptr<const std::string> site_;
    bool inside_start_ = false;
    bool ended_at_once_ = false;
    bool failed_ = false;
};

// In debug mode, or after it.
inline void task_base::debug() noexcept {
    runtime().watch_steps(*host_);
    const char* const text = owner_->site != nullptr ? PyUnicode_AsUTF8(owner_->site) : nullptr;
    try {
        if (text != nullptr) site_ = std::make_unique<const std::string>(text);
    } catch (const std::bad_alloc&) {  // a report will go without
    }
    PyErr_Clear();  // likewise
}

inline void task_base::begin(bridge::loop_host& host, bridge::awaitable& owner,
                             std::coroutine_handle<root::promise_type> coroutine) noexcept {
    host_ = &host;
    owner_ = &owner;
    root_ = coroutine;
    inside_start_ = true;
    if (about_.policy != gil::hold) static_cast<void>(context());
    if (owner.site != nullptr || host.native().watched() != nullptr) [[unlikely]]
        debug();
    {
        const scheduler::entry inside(host.native());
        const first_step counted(about_, host.native());
        host.native().resume(coroutine);
    }
    inside_start_ = false;
    if (ended_at_once_) {
        runtime().finish(owner);  // this source may be gone
        return;
    }
    host.submitted();
}

// The loop is closing: the coroutine is driven to its end from here.
inline void task_base::collect() noexcept {
    bridge::awaitable& owner = *owner_;  // outlives this call, *this does not
    bridge::loop_host& host = *host_;
    scheduler& native = host.native();
    {
        const scheduler::entry inside(native);
        scope_.request_stop();
        cancel_waits();
    }
    while (!owner.done() && host.is_patient()) {
        PyThreadState* const thread = PyEval_SaveThread();
        native.wait(host.patience_ns());
        native.run_native();
        PyEval_RestoreThread(thread);
        native.run_host();
    }
}

// Function: what makes the task, called with Arguments at the first await. Convert::value(T&&)
// gives a new reference, or null with an exception set; Convert::raise(exception_ptr) sets one.
template <class Convert, class Function, class... Arguments>
class task_source final : public task_base {
    using made = std::invoke_result_t<Function, Arguments&&...>;
    using value_type = typename made::value_type;

  public:
    template <class... Given>
    task_source(const export_info& about, Function function, Given&&... given)
        : task_base(about),
          function_(std::move(function)),
          arguments_(std::forward<Given>(given)...) {
        takes_back = is_missed;
    }

    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override {
        std::coroutine_handle<root::promise_type> coroutine;
        try {
            coroutine = run(*this).handle;
        } catch (...) {  // no memory for its frame
            outcome_.set_error(std::current_exception());
            runtime().finish(owner);
            return;
        }
        begin(host, owner, coroutine);
    }
    PyObject* result() noexcept override {
        try {
            if constexpr (std::is_void_v<value_type>) {
                outcome_.take();
                return Py_NewRef(Py_None);
            } else {
                return Convert::value(outcome_.take());
            }
        } catch (...) {
            Convert::raise(ringloop::detail::unhandled(), about());
            return nullptr;
        }
    }
    void undelivered(PyObject* value) noexcept override {
        if constexpr (is_missed)
            if (value != nullptr) value_type::undelivered(value);
    }
    int traverse(visitproc visit, void* arg) noexcept override {
        const int stop = task_base::traverse(visit, arg);
        return stop != 0 || begun() ? stop : visit_held(arguments_, visit, arg);
    }

  private:
    // A value that must not be left to the collector.
    static constexpr bool is_missed = requires(PyObject * value) {
        value_type::undelivered(value);
    };

    static root run(task_source& self) {
        try {
            made work = std::apply(self.function_, std::move(self.arguments_));
            if constexpr (std::is_void_v<value_type>)
                co_await std::move(work).in(self.scope());
            else
                self.outcome_.set_value(co_await std::move(work).in(self.scope()));
        } catch (...) {
            std::exception_ptr failure = ringloop::detail::unhandled();
            if (!ringloop::detail::is_cancel(failure)) self.set_failed();
            self.outcome_.set_error(std::move(failure));
        }
    }

    Function function_;
    std::tuple<Arguments...> arguments_;
    ringloop::result<value_type> outcome_;
};

// A new awaitable for what a function made at the call, or null with an exception set.
template <class Convert, class T>
[[nodiscard]] PyObject* await_outcome(const export_info& about, outcome<T> made, ref self) {
    if (made.known()) {
        if constexpr (std::is_void_v<T>) {
            return runtime().finished(nullptr);
        } else {
            PyObject* const value = Convert::value(made.take_value());
            return value != nullptr ? runtime().finished(value) : nullptr;
        }
    }
    auto take = [later = made.take_task()]() mutable { return std::move(later); };
    auto* work = new (std::nothrow) task_source<Convert, decltype(take)>(about, std::move(take));
    if (work != nullptr) work->keep(std::move(self));
    return runtime().new_awaitable(work);
}

}  // namespace ringloop::py::detail
