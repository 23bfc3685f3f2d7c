// The C table of capi.h: submit, post, now for other extension modules.
//
// Threads as capi.h says, entry by entry.
#include <memory>
#include <new>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/host.hpp"
#include "ringloop/bridge/python/loop_link.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/memory.hpp"
#include "table.hpp"

namespace ringloop::bridge {

namespace {

struct posted_call : posted {
    posted_call(void (*to_call)(void*), void* argument) noexcept
        : posted(&posted_call::deliver), call(to_call), context(argument) {}
    void (*call)(void*);
    void* context;

  private:
    static void deliver(posted& node) noexcept {
        const std::unique_ptr<posted_call> self(static_cast<posted_call*>(&node));
        self->call(self->context);
        if (PyErr_Occurred() != nullptr) PyErr_WriteUnraisable(nullptr);
    }
};

// The owner starts it on a thread of its own: submitting is telling it.
class c_job final : public python_job {
  public:
    c_job(const ringloop_job* described, void* context) noexcept
        : job_(described), context_(context) {
        where = &starter;
    }
    ~c_job() override {
        if (job_->destroy != nullptr) job_->destroy(context_);
    }
    void run() override {}
    PyObject* result() noexcept override { return job_->result(context_); }

  private:
    struct start_at_once final : executor {
        void submit(job& work) noexcept override {
            auto& self = static_cast<c_job&>(work);
            self.job_->start(self.context_, reinterpret_cast<ringloop_work*>(&work));
        }
        [[nodiscard]] unsigned concurrency() const noexcept override { return 1; }
    };
    static start_at_once starter;
    const ringloop_job* job_;
    void* context_;
};

c_job::start_at_once c_job::starter;

PyObject* submit(const ringloop_job* job, void* context) noexcept {
    auto* work = new (std::nothrow) c_job(job, context);
    if (work != nullptr) return await_job(work);
    if (job->destroy != nullptr) job->destroy(context);
    return PyErr_NoMemory();
}

void complete(ringloop_work* work) noexcept {
    reinterpret_cast<job*>(work)->execute();
}

int stop_requested(const ringloop_work* work) noexcept {
    return reinterpret_cast<const job*>(work)->stop_requested() ? 1 : 0;
}

ringloop_loop* acquire(PyObject* loop) noexcept {
    loop_host* host = host_of(loop);
    if (host == nullptr) return nullptr;
    if (host->ended()) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return nullptr;
    }
    loop_link* link = host->link();
    if (link == nullptr) return PyErr_NoMemory(), nullptr;
    link->retain();
    return reinterpret_cast<ringloop_loop*>(link);
}

loop_link* of(ringloop_loop* loop) noexcept {
    return reinterpret_cast<loop_link*>(loop);
}
void release(ringloop_loop* loop) noexcept {
    of(loop)->release();
}
int post(ringloop_loop* loop, void (*run)(void*), void* context) noexcept {
    return of(loop)->post(run, context);
}
std::int64_t now(ringloop_loop* loop) noexcept {
    return of(loop)->now_ns();
}

const python_table cpp_table = {
    python_table_version,
    sizeof(python_table),
    &await_job,
    [](source* work) noexcept { return new_awaitable(std::unique_ptr<source>(work)); },
    [](awaitable& ended) noexcept { ended.finish(); },
    &raise_from,
    &release_later,
    [](iterator_source* work) noexcept {
        return new_iterator(std::unique_ptr<iterator_source>(work));
    },
    [](PyObject* value) noexcept {
        return value == nullptr ? finished_none() : finished_value(ref::steal(value));
    },
    &cancelled_error,
    &add_export,
    [](loop_host& host) noexcept { host.watch_steps(); },
    [](const void* block, std::size_t bytes, bool taken) noexcept {
        if (taken)
            memory::took(memory::kind::kernel_results, block, bytes);
        else
            memory::gave_back(memory::kind::kernel_results, block, bytes);
    },
    &keep_native,
    &native_of,
};

ringloop_api table = {python_api_magic,
                      python_api_version,
                      const_cast<python_table*>(&cpp_table),
                      &acquire,
                      &release,
                      &post,
                      &now,
                      &submit,
                      &complete,
                      &stop_requested};

}  // namespace

int loop_link::post(void (*run)(void*), void* context) noexcept {
    if (host_.load(std::memory_order_acquire) == nullptr) return -1;
    auto* node = new (std::nothrow) posted_call(run, context);
    if (node == nullptr) return -1;
    const std::lock_guard lock(mutex_);
    loop_host* host = host_.load(std::memory_order_relaxed);
    if (host == nullptr) {
        delete node;
        return -1;
    }
    const job_home home = host->home();
    home.post(home.context, *node);
    return 0;
}

std::int64_t loop_link::now_ns() noexcept {
    if (host_.load(std::memory_order_acquire) == nullptr) return -1;
    const std::lock_guard lock(mutex_);
    loop_host* host = host_.load(std::memory_order_relaxed);
    return host != nullptr ? host->native().now_ns() : -1;
}

int add_python_api(PyObject* module) noexcept {
    const ref capsule = ref::steal(PyCapsule_New(&table, python_api_capsule, nullptr));
    return capsule ? PyModule_AddObjectRef(module, "api", capsule.get()) : -1;
}

}  // namespace ringloop::bridge
