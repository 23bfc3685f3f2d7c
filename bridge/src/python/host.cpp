// What every host shares: the list of awaitables in flight and their end, and the way in for
// workers' completions.
#include "ringloop/bridge/python/host.hpp"

#include <sched.h>

#include <new>
#include <vector>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/finalizing.hpp"
#include "ringloop/bridge/python/loop_link.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::bridge {
namespace {

constexpr std::int64_t patience_at_exit_ns = 1'000'000'000;

}  // namespace

// Any thread. The consumer may free the scheduler as soon as it has the node, while this thread is
// still on its way through wake(): `posting_` holds end_all() up until it has left.
void loop_host::post_home(void* context, posted& node) noexcept {
    auto& self = *static_cast<loop_host*>(context);
    self.posting_.fetch_add(1, std::memory_order_relaxed);
    self.native_->post_host(node);
    self.posting_.fetch_sub(1, std::memory_order_release);
}

void loop_host::drop_link() noexcept {
    if (link_ == nullptr) return;
    if (!ended_) link_->end();
    link_->release();
}

bool loop_host::runs_elsewhere() noexcept {
    if (thread == PyThread_get_thread_ident()) return false;
    const ref here = ref::steal(running_loop());
    if (here.get() == loop_) {  // it has moved
        thread = PyThread_get_thread_ident();
        return false;
    }
    PyErr_Clear();  // no loop runs here
    const ref running = ref::steal(PyObject_CallMethod(loop_, "is_running", nullptr));
    if (!running) PyErr_WriteUnraisable(loop_);
    return running.get() == Py_True;
}

loop_link* loop_host::link() noexcept {
    if (link_ == nullptr) link_ = new (std::nothrow) loop_link(this);
    return link_;
}

void loop_host::end_all() noexcept {
    ended_ = true;
    if (link_ != nullptr && !is_parents_) link_->end();
    // All are asked before one is waited for: they may stand in each other's way.
    std::vector<ref> all;
    for (awaitable* each = pending_; each != nullptr; each = each->next)
        all.push_back(ref::share(each->object()));
    for (const ref& each : all) reinterpret_cast<awaitable*>(each.get())->cancel(nullptr);
    if (finalizing()) patience_ns_ = native_->now_ns() + patience_at_exit_ns;
    const auto not_collected = [this]() noexcept {
        awaitable* each = pending_;
        while (each != nullptr && each->collected) each = each->next;
        return each;
    };
    while (awaitable* each = not_collected()) each->collect();
    if (pending_ != nullptr) {
        left_behind_ = true;
        leave_pending();
    }
    while (posting_.load(std::memory_order_acquire) != 0) sched_yield();
}

int loop_host::traverse(visitproc visit, void* context) noexcept {
    for (awaitable* each = pending_; each != nullptr; each = each->next)
        if (const int stop = visit(each->object(), context); stop != 0) return stop;
    return 0;
}

void loop_host::forget_after_fork() noexcept {
    ended_ = is_parents_ = true;
    posting_.store(0, std::memory_order_relaxed);  // threads that the child does not have
    if (link_ != nullptr) link_->forget();
    for (awaitable* each = pending_; each != nullptr; each = each->next) each->work->left_behind();
    leave_pending();  // their kernel half is the parent's
}

// Their sources stay allocated, without an owner, for good.
void loop_host::leave_pending() noexcept {
    while (pending_ != nullptr) {
        pending_->work = nullptr;
        pending_->unlink();
    }
}

}  // namespace ringloop::bridge
