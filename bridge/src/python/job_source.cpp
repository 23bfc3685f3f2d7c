// A worker's job as the source of an await (api.hpp). Thread: the loop's, GIL held; only
// python_job::run() is elsewhere.
#include <memory>
#include <new>

#include "ringloop/bridge/python/api.hpp"
#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "table.hpp"

namespace ringloop::bridge {

long jobs_live = 0;

namespace {

class job_source final : public source {
  public:
    explicit job_source(std::unique_ptr<python_job> work) noexcept : job_(std::move(work)) {
        ++jobs_live;
    }
    ~job_source() override { --jobs_live; }

    void start(loop_host& host, awaitable& owner) noexcept override {
        host_ = &host;
        owner_ = &owner;
        job_->home = host.home();
        job_->owner = this;
        job_->on_finish = &job_source::finished;
        ++host.jobs_in_flight;
        job_->where->submit(*job_);
    }
    void request_cancel() noexcept override { job_->request_stop(); }
    void collect() noexcept override;
    PyObject* result() noexcept override {
        if (!job_->error) return job_->result();
        raise_from(job_->error);
        return nullptr;
    }
    [[nodiscard]] const char* name() const noexcept override { return "job"; }

  private:
    static void finished(job& work) noexcept {
        auto* self = static_cast<job_source*>(work.owner);
        --self->host_->jobs_in_flight;
        self->owner_->finish();
    }
    std::unique_ptr<python_job> job_;
    loop_host* host_ = nullptr;
    awaitable* owner_ = nullptr;
};

// The worker leaves within a block of work; until then this thread sleeps on the ring.
void job_source::collect() noexcept {
    awaitable& owner = *owner_;
    loop_host& host = *host_;
    scheduler& native = host.native();
    request_cancel();
    while (!owner.done() && host.is_patient()) {
        Py_BEGIN_ALLOW_THREADS native.wait(host.patience_ns());
        Py_END_ALLOW_THREADS native.run_host();
    }
}

}  // namespace

PyObject* await_job(python_job* work) noexcept {
    std::unique_ptr<python_job> owned(work);
    auto* made = new (std::nothrow) job_source(std::move(owned));
    return new_awaitable(std::unique_ptr<source>(made));
}

}  // namespace ringloop::bridge
