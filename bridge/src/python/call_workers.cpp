// The workers for calls of Python functions. Contract in call_workers.hpp.
#include "call_workers.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>

#include "ringloop/bridge/python/api.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/py/gil_scope.hpp"
#include "ringloop/thread_pool.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

constexpr std::chrono::milliseconds hold_time{1};

std::chrono::steady_clock::time_point now() noexcept {
    // tidy-allow: kernel-door because a worker has no driver to ask for the time
    return std::chrono::steady_clock::now();
}

// As many as asyncio's executor: calls may block.
unsigned threads_max() noexcept {
    return std::min(32U, std::thread::hardware_concurrency() + 4);
}

class call_workers final : public executor {
  public:
    call_workers() : pool_({.threads_max = threads_max(), .name = "rl-worker-py"}) {}

    void submit(job& work) noexcept override {
        const std::lock_guard lock(mutex_);
        try {
            queue_.push_back(&work);
            wake_one();
        } catch (...) {  // no memory, or no thread: it ends with that
            if (!queue_.empty() && queue_.back() == &work) queue_.pop_back();
            fail(work, std::current_exception());
        }
    }
    [[nodiscard]] unsigned concurrency() const noexcept override { return threads_max(); }

  private:
    // One thread's way through the queue.
    struct way : thread_pool::item {
        explicit way(call_workers& of) noexcept
            : item([](item& self) noexcept {
                  const std::unique_ptr<way> mine(static_cast<way*>(&self));
                  mine->owner.serve();
              }),
              owner(of) {}
        call_workers& owner;
    };

    // With the lock.
    void wake_one() {
        if (on_the_way_ || queue_.empty() || serving_ >= threads_max()) return;
        auto next = std::make_unique<way>(*this);
        pool_.submit(*next);
        static_cast<void>(next.release());
        on_the_way_ = true;
        ++serving_;
    }
    void serve() noexcept {
        std::optional<py::gil_scope> gil;
        try {
            gil.emplace();
        } catch (const py::interpreter_ended&) {  // nobody waits for them any more
            while (job* const work = next(true)) fail(*work, std::current_exception());
            return;
        }
        auto until = now() + hold_time;
        for (job* work = next(true); work != nullptr; work = next(false)) {
            work->execute();
            if (now() < until) continue;
            const py::detail::late_for_gil stays;
            PyThreadState* const thread = PyEval_SaveThread();
            PyEval_RestoreThread(thread);
            until = now() + hold_time;
        }
    }
    job* next(bool arriving) noexcept {
        const std::lock_guard lock(mutex_);
        if (arriving) on_the_way_ = false;
        if (queue_.empty()) {
            --serving_;
            return nullptr;
        }
        job* const work = queue_.front();
        queue_.pop_front();
        try {
            wake_one();
        } catch (...) {  // this thread comes to the rest itself
        }
        return work;
    }
    static void fail(job& work, std::exception_ptr why) noexcept {
        work.error = std::move(why);
        work.home.post(work.home.context, work);
    }

    std::mutex mutex_;  // never held while somebody waits for the GIL
    std::deque<job*> queue_;
    unsigned serving_ = 0;     // threads that will come back to next()
    bool on_the_way_ = false;  // one of them has yet to ask for the first time
    thread_pool pool_;
};

std::atomic<call_workers*> shared{nullptr};

void forget_after_fork() {
    shared.store(nullptr, std::memory_order_relaxed);  // their threads are the parent's
}

// Never destroyed, as ringloop::workers(). GIL.
call_workers& workers_for_calls() {
    if (call_workers* const found = shared.load(std::memory_order_relaxed)) return *found;
    static const int at_fork = pthread_atfork(nullptr, nullptr, &forget_after_fork);
    static_cast<void>(at_fork);
    auto* const made = new call_workers();
    shared.store(made, std::memory_order_relaxed);
    return *made;
}

class call_job final : public python_job {
  public:
    call_job(ref to_call, ref arguments)
        : function_(std::move(to_call)), arguments_(std::move(arguments)) {
        where = &workers_for_calls();
    }
    void run() override {  // with the GIL: call_workers has taken it
        const py::detail::late_for_gil stays;
        value_ = ref::steal(PyObject_Call(function_.get(), arguments_.get(), nullptr));
        if (!value_) raised_ = take_exception();
        function_ = ref();
        arguments_ = ref();
    }
    PyObject* result() noexcept override {
        if (raised_) restore_exception(std::move(raised_));
        return value_.release();
    }

  private:
    ref function_;
    ref arguments_;
    ref value_;
    ref raised_;
};

}  // namespace

PyObject* offload_call(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
    if (count < 1 || PyCallable_Check(args[0]) == 0)
        return PyErr_Format(PyExc_TypeError, "_offload() takes a function and its arguments");
    ref arguments = ref::steal(PyTuple_New(count - 1));
    if (!arguments) return nullptr;
    for (Py_ssize_t i = 1; i < count; ++i)
        PyTuple_SET_ITEM(arguments.get(), i - 1, Py_NewRef(args[i]));
    try {
        return await_job(new call_job(ref::share(args[0]), std::move(arguments)));
    } catch (...) {
        raise_from(std::current_exception());
        return nullptr;
    }
}

}  // namespace ringloop::bridge
