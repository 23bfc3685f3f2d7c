// A generator<T> as Python's asynchronous iterator.
//
// One step at a time: anext() while one is under way raises RuntimeError, as Python's own
// generators do. A step that was cancelled too late, with a value there, loses nothing: the next
// one returns that value. aclose() destroys the generator where it stands.
//
// The iterator and its steps share the generator. Each of them holds the object whose member it is
// by a reference of its own, which it shows to the collector.
//
// Thread: the loop's, GIL held; the generator's body runs as a task's does.
#pragma once

#include <Python.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ringloop/detail/resident.hpp"
#include "ringloop/generator.hpp"
#include "ringloop/py/task_source.hpp"

namespace ringloop::py::detail {

template <class T>
struct generator_state : private ringloop::detail::resident {
    generator<T> values;
    // What a step got whose await was cancelled: not yet converted, or already.
    std::optional<T> kept;
    ref converted;
    bool busy = false;

    // Its locals may be sockets of the loop's: what stands at a co_yield when the loop is closed
    // ends with it.
    void live_on(scheduler& home) noexcept {
        part();
        join(home, [](resident& self) noexcept { static_cast<generator_state&>(self).close(); });
    }
    void close() noexcept {
        part();
        values = generator<T>();
    }

    static task<void> step(std::shared_ptr<generator_state> state) {
        if (!state->kept && !state->converted) state->kept = co_await state->values.next();
    }
};

// One step's await. Its result takes what the step kept: only an await that is still wanted asks.
template <class Convert, class T>
class step_source final : public task_base {
  public:
    step_source(const export_info& about, std::shared_ptr<generator_state<T>> state) noexcept
        : task_base(about), state_(std::move(state)) {
        takes_back = true;
    }
    ~step_source() override {
        if (running_) state_->busy = false;
    }

    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override {
        std::coroutine_handle<root::promise_type> coroutine;
        try {
            if (state_->busy)
                throw std::runtime_error("anext(): the asynchronous iterator is already running");
            coroutine = run(*this).handle;
            running_ = state_->busy = true;
            state_->live_on(host.native());
        } catch (...) {
            failure_ = std::current_exception();
            runtime().finish(owner);
            return;
        }
        begin(host, owner, coroutine);
    }
    PyObject* result() noexcept override {
        if (failure_) {
            raise_failure();
            return nullptr;
        }
        if (state_->converted) return state_->converted.release();
        if (!state_->kept) {
            PyErr_SetNone(PyExc_StopAsyncIteration);
            return nullptr;
        }
        try {
            T value = std::move(*state_->kept);
            state_->kept.reset();
            return Convert::value(std::move(value));
        } catch (...) {
            Convert::raise(ringloop::detail::unhandled(), about());
            return nullptr;
        }
    }

    void undelivered(PyObject* value) noexcept override {
        if (value != nullptr) state_->converted = ref::share(value);
    }

  private:
    // These two would pass for the generator's end, or for a value.
    void raise_failure() noexcept {
        Convert::raise(failure_, about());
        const char* text = nullptr;
        if (PyErr_ExceptionMatches(PyExc_StopAsyncIteration) != 0)
            text = "async generator raised StopAsyncIteration";
        else if (PyErr_ExceptionMatches(PyExc_StopIteration) != 0)
            text = "async generator raised StopIteration";
        if (text != nullptr)
            bridge::restore_exception(bridge::raised_inside(text, bridge::take_exception()));
    }
    static root run(step_source& self) {
        try {
            co_await generator_state<T>::step(self.state_).in(self.scope());
        } catch (...) {
            self.failure_ = ringloop::detail::unhandled();
            if (!ringloop::detail::is_cancel(self.failure_)) self.set_failed();
        }
    }
    std::shared_ptr<generator_state<T>> state_;
    std::exception_ptr failure_;
    bool running_ = false;
};

template <class Convert, class T>
class generator_source final : public bridge::iterator_source {
  public:
    generator_source(const export_info& about, generator<T> values, ref self)
        : about_(about), state_(std::make_shared<generator_state<T>>()) {
        state_->values = std::move(values);
        self_ = std::move(self);
    }
    PyObject* next() noexcept override {
        auto* step = new (std::nothrow) step_source<Convert, T>(about_, state_);
        if (step != nullptr) step->keep(self_.share());
        return runtime().new_awaitable(step);
    }
    PyObject* close() noexcept override {
        if (state_->busy) {
            PyErr_SetString(PyExc_RuntimeError,
                            "aclose(): the asynchronous iterator is already running");
            return nullptr;
        }
        state_->close();
        state_->kept.reset();
        state_->converted = ref();
        return runtime().finished(nullptr);
    }
    int traverse(visitproc visit, void* arg) noexcept override {
        if (const int stop = self_.traverse(visit, arg); stop != 0) return stop;
        if (state_.use_count() != 1) return 0;  // a step has it as well, and may be writing
        const int stop = state_->converted.traverse(visit, arg);
        return stop != 0 ? stop : visit_held(state_->kept, visit, arg);
    }
    [[nodiscard]] const char* name() const noexcept override { return about_.name; }

  private:
    const export_info& about_;
    ref self_;  // the object whose member the generator is; outlives it
    std::shared_ptr<generator_state<T>> state_;
};

}  // namespace ringloop::py::detail
