// probe: awaits with nothing in them, for benchmarks and tests of the bridge: a NOP on the ring, a
// hop to a worker thread and back, a failure. No part of the public interface.
//
// Thread: the loop's, GIL held. The worker never touches Python, but for _probe_hop_by_call().
#include "probe.hpp"

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "ringloop/bridge/python/api.hpp"
#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/operation_source.hpp"
#include "ringloop/detail/processors.hpp"
#include "ringloop/hooks.h"
#include "ringloop/py/runtime.hpp"

namespace ringloop::python {
namespace {

using bridge::awaitable;
using bridge::loop_host;
using bridge::ref;

// Suspends once; the ring's NOP ends it.
class nop_source final : public bridge::operation_source {
  public:
    // `suspend`: a guest must not deliver it at its submit, which it may.
    nop_source(ref value, bool suspend) noexcept : value_(std::move(value)), suspend_(suspend) {}
    void start(loop_host& host, awaitable& owner) noexcept override {
        bind(host, owner);
        op.prepare_nop();
        if (!suspend_) return submit();
        io().submit(op);
        io().flush();
    }
    PyObject* result() noexcept override { return value_.release(); }
    [[nodiscard]] const char* name() const noexcept override { return "nop"; }

  private:
    void completed(const completion&) noexcept override { owner().finish(); }
    ref value_;
    const bool suspend_;
};

// One thread and one queue. It looks for more work a moment before it sleeps, as oneTBB's workers
// do: a wake-up costs the submitter more than the whole job.
class worker final : public bridge::executor {
  public:
    worker() : thread_([this] { serve(); }) {}
    ~worker() override {
        {
            const std::lock_guard lock(mutex_);
            stopping_ = true;
        }
        filled_.notify_one();
        thread_.join();
    }
    void submit(bridge::job& work) noexcept override {
        bool wake = false;
        {
            const std::lock_guard lock(mutex_);
            queue_.push_back(&work);
            waiting_.store(true, std::memory_order_relaxed);
            wake = asleep_;
        }
        if (wake) filled_.notify_one();
    }
    [[nodiscard]] unsigned concurrency() const noexcept override { return 1; }

  private:
    void serve() {
        pthread_setname_np(pthread_self(), "rl-worker");
        const bool spins = ringloop::detail::has_several_processors();
        std::unique_lock lock(mutex_);
        for (;;) {
            if (queue_.empty() && spins) {
                lock.unlock();
                look_for_work();
                lock.lock();
            }
            asleep_ = true;
            filled_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
            asleep_ = false;
            if (queue_.empty()) return;
            std::deque<bridge::job*> batch;
            batch.swap(queue_);
            waiting_.store(false, std::memory_order_relaxed);
            lock.unlock();
            for (bridge::job* work : batch) work->execute();
            lock.lock();
        }
    }
    void look_for_work() const noexcept {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
        while (!waiting_.load(std::memory_order_relaxed) &&
               std::chrono::steady_clock::now() < end) {
        }
    }
    std::mutex mutex_;
    std::condition_variable filled_;
    std::deque<bridge::job*> queue_;
    std::atomic<bool> waiting_{false};  // the queue is not empty: a hint
    bool asleep_ = false;
    bool stopping_ = false;
    std::thread thread_;
};

// Never destroyed: its thread must not be joined while the interpreter ends.
worker& shared_worker() {
    static auto* const only = new worker();
    return *only;
}

enum class failure { none, system, argument, memory, other };

class hop_job final : public bridge::python_job {
  public:
    hop_job(double busy_seconds, failure how) : busy_seconds_(busy_seconds), how_(how) {
        where = &shared_worker();
        ++live;
    }
    ~hop_job() override { --live; }
    void run() override {
        std::mutex alone;
        std::unique_lock lock(alone);
        std::condition_variable never;
        const auto slices = static_cast<long>(busy_seconds_ * 1e4);
        for (long slice = 0; slice < slices && !stop_requested(); ++slice)
            never.wait_for(lock, std::chrono::microseconds(100));
        switch (how_) {
            case failure::none:
                return;
            case failure::system:
                throw std::system_error(ENOENT, std::generic_category(), "probe");
            case failure::argument:
                throw std::invalid_argument("probe: bad argument");
            case failure::memory:
                throw std::bad_alloc();
            case failure::other:
                throw std::runtime_error("probe: failed");
        }
    }
    PyObject* result() noexcept override { return PyBool_FromLong(stop_requested()); }
    static inline long live = 0;

  private:
    double busy_seconds_;
    failure how_;
};

PyObject* nop(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
    return bridge::await_source<nop_source>(ref::share(count > 0 ? args[0] : Py_None),
                                            count > 1 && args[1] == Py_True);
}

PyObject* immediate(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
    if (count == 0 || args[0] == Py_None) return bridge::finished_none();
    return bridge::finished_value(ref::share(args[0]));
}

PyObject* hop(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
    const double busy_seconds = count > 0 ? PyFloat_AsDouble(args[0]) : 0;
    const long how = count > 1 ? PyLong_AsLong(args[1]) : 0;
    if (PyErr_Occurred() != nullptr) return nullptr;
    // As another extension module gets it.
    if (py::import_runtime() < 0) return nullptr;
    try {
        return py::runtime().await_job(new hop_job(busy_seconds, static_cast<failure>(how)));
    } catch (...) {
        bridge::raise_from(std::current_exception());
        return nullptr;
    }
}

// The same hop without this bridge: the worker takes the GIL for each completion and calls
// loop.call_soon_threadsafe(future.set_result, None) itself.
class call_job final : public bridge::job {
  public:
    call_job(ref call_soon_threadsafe, ref set_result) noexcept
        : call_(std::move(call_soon_threadsafe)), set_result_(std::move(set_result)) {
        home = {nullptr, &call_job::call};
        ++hop_job::live;
    }
    ~call_job() override { --hop_job::live; }
    void run() override {}

  private:
    static void call(void*, posted& node) noexcept {
        const PyGILState_STATE state = PyGILState_Ensure();
        auto& self = static_cast<call_job&>(node);
        PyObject* words[] = {self.set_result_.get(), Py_None};
        if (!ref::steal(PyObject_Vectorcall(self.call_.get(), words, 2, nullptr)))
            PyErr_WriteUnraisable(self.call_.get());
        delete &self;
        PyGILState_Release(state);
    }
    ref call_;
    ref set_result_;
};

PyObject* hop_by_call(PyObject*, PyObject* const* args, Py_ssize_t count) noexcept {
    if (count != 2) {
        return PyErr_Format(PyExc_TypeError,
                            "_probe_hop_by_call(call_soon_threadsafe, set_result)");
    }
    auto* job = new (std::nothrow) call_job(ref::share(args[0]), ref::share(args[1]));
    if (job == nullptr) return PyErr_NoMemory();
    shared_worker().submit(*job);
    Py_RETURN_NONE;
}

PyObject* counts(PyObject*, PyObject*) noexcept {
    return Py_BuildValue("{slslsl}", "awaitables", bridge::awaitables_live, "pending",
                         bridge::awaitables_pending, "jobs", hop_job::live);
}

// ---- a native hook (hooks.h) that does nothing but count

long hook_calls = 0;

void count_call(PyObject*, double, void* context) {
    ++*static_cast<long*>(context);
}
PyObject* new_hook(PyObject*, PyObject*) {
    return ringloop_hook_new(&count_call, &hook_calls);
}
PyObject* get_hook_calls(PyObject*, PyObject*) {
    return PyLong_FromLong(hook_calls);
}

PyMethodDef functions[] = {
    {"_probe_hook", new_hook, METH_NOARGS, "A native hook that counts its calls."},
    {"_probe_hook_calls", get_hook_calls, METH_NOARGS, "How often it was called."},
    {"_probe_nop", bridge::method(nop), METH_FASTCALL, "An await of one NOP on the ring."},
    {"_probe_immediate", bridge::method(immediate), METH_FASTCALL, "An await that is done."},
    {"_probe_hop", bridge::method(hop), METH_FASTCALL, "An await of a job on one worker thread."},
    {"_probe_hop_by_call", bridge::method(hop_by_call), METH_FASTCALL,
     "The same hop, completed by call_soon_threadsafe(set_result) from the worker."},
    {"_probe_counts", counts, METH_NOARGS, "Live awaitables and jobs."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_probe(PyObject* module) noexcept {
    return PyModule_AddFunctions(module, functions);
}

}  // namespace ringloop::python
