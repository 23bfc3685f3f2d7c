// The scheduler: ready queue, timers and inboxes over one driver. See scheduler.hpp for the
// contract.
//
// Thread: the one that runs it, except post(), post_host() and stop(). No Python, no system call of
// its own: time, sleep and wake-up are the driver's.
#include "ringloop/scheduler.hpp"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "detail/current.hpp"
#include "detail/owner_sleep.hpp"
#include "ringloop/detail/resident.hpp"
#include "ringloop/detail/transfer.hpp"

namespace ringloop {

thread_local constinit scheduler* detail::current_scheduler = nullptr;

// A flat power-of-two ring of handles that doubles when full.
struct scheduler::ready_queue {
    std::vector<std::coroutine_handle<>> slots = std::vector<std::coroutine_handle<>>(1024);
    std::size_t head = 0;
    std::size_t tail = 0;

    [[nodiscard]] std::size_t size() const noexcept { return tail - head; }
    void push(std::coroutine_handle<> handle) {
        if (size() == slots.size()) grow();
        slots[tail++ & (slots.size() - 1)] = handle;
    }
    [[nodiscard]] std::coroutine_handle<> pop() noexcept {
        return slots[head++ & (slots.size() - 1)];
    }
    void grow() {
        std::vector<std::coroutine_handle<>> larger(slots.size() * 2);
        const std::size_t count = size();
        for (std::size_t i = 0; i < count; ++i) larger[i] = slots[(head + i) & (slots.size() - 1)];
        slots = std::move(larger);
        head = 0;
        tail = count;
    }
};

namespace {
constexpr std::size_t not_enlisted_max = 64;  // roots and what comes from other threads
constinit std::mutex resident_lists;  // of all schedulers: one may end while a resident does
}

scheduler::scheduler(const driver_config& config) : scheduler(make_driver(config)) {}

scheduler::scheduler(std::unique_ptr<driver> body)
    : driver_(std::move(body)), ready_(std::make_unique<ready_queue>()) {
    given_back_.reserve(driver_->what().buffer_count);
}

scheduler::~scheduler() {
    come_to_rest();
}

void scheduler::end(std::unique_ptr<scheduler> left) noexcept {
    left->come_to_rest();
    const std::lock_guard lock(resident_lists);
    if (left->leases_ == 0) return;
    left->ended_ = true;
    static_cast<void>(left.release());  // give_back() deletes it
}

void scheduler::come_to_rest() noexcept {
    send_away();
    driver_->retire_all();
    // A poster may have been overtaken by its own node: it is still on its way out of post().
    while (posting_.load(std::memory_order_acquire) != 0) std::this_thread::yield();
}

// ---- residents

void detail::resident::join(scheduler& home, farewell leave) noexcept {
    const std::lock_guard lock(resident_lists);
    leave_ = leave;
    next_ = home.residents_;
    link_ = &home.residents_;
    home.residents_ = this;
    if (next_ != nullptr) next_->link_ = &next_;
}

void detail::resident::part() noexcept {
    const std::lock_guard lock(resident_lists);
    if (link_ == nullptr) return;
    *link_ = next_;
    if (next_ != nullptr) next_->link_ = link_;
    link_ = nullptr;
}

bool detail::resident::end_at_home(scheduler& home, farewell end) noexcept {
    const std::lock_guard lock(resident_lists);  // held, the home cannot go: this is one of its own
    if (link_ == nullptr) return false;
    if (!home.turns_elsewhere()) return false;
    *link_ = next_;
    if (next_ != nullptr) next_->link_ = link_;
    link_ = nullptr;
    leave_ = end;
    next_ = std::exchange(home.ending_, this);
    home.has_ending_.store(true, std::memory_order_release);
    home.driver_->wake();
    return true;
}

void scheduler::give_back(buffer_id id, bool counted) noexcept {
    if (turns_elsewhere() && counted) {
        const std::lock_guard lock(resident_lists);
        if (!ended_) {
            given_back_.push_back(id);
            has_ending_.store(true, std::memory_order_release);
            driver_->wake();
            return;
        }
    }
    driver_->release_buffer(id);
    if (!counted) return;
    --leases_;
    if (leases_ == 0 && ended_) delete this;
}

void scheduler::end_ending() noexcept {
    detail::resident* all = nullptr;
    {
        const std::lock_guard lock(resident_lists);
        all = std::exchange(ending_, nullptr);
        has_ending_.store(false, std::memory_order_relaxed);
        for (const buffer_id id : given_back_) driver_->release_buffer(id);
        leases_ -= static_cast<unsigned>(given_back_.size());
        given_back_.clear();
    }
    while (all != nullptr) {
        detail::resident& each = *all;
        all = each.next_;
        each.leave_(each);
    }
}

void scheduler::send_away() noexcept {
    end_ending();
    while (residents_ != nullptr) {
        detail::resident& each = *residents_;
        each.part();
        each.leave_(each);
    }
}

void scheduler::abandon_after_fork() noexcept {
    posting_.store(0, std::memory_order_relaxed);
    driver_->abandon_after_fork();
}

void scheduler::abandon_to_poller_after_fork() noexcept {
    posting_.store(0, std::memory_order_relaxed);
    driver_->abandon_to_poller_after_fork();
}

scheduler* scheduler::current() noexcept {
    return detail::current_scheduler;
}

scheduler::entry::entry(scheduler& entered) noexcept
    : previous_(std::exchange(detail::current_scheduler, &entered)) {}

scheduler::entry::~entry() {
    detail::current_scheduler = previous_;
}

void scheduler::schedule(std::coroutine_handle<> handle) noexcept {
    ready_->push(handle);
    if (notice_ != nullptr && detail::current_scheduler != this) [[unlikely]]
        notice_->call(*notice_);
}

void scheduler::enlist() {
    if (enlisted_ + not_enlisted_max >= ready_->slots.size()) ready_->grow();
    ++enlisted_;
}

void scheduler::add(turn_hook& hook) noexcept {
    turn_hook** at = &hooks_;
    while (*at != nullptr) at = &(*at)->next;
    *at = &hook;
}

void scheduler::remove(turn_hook& hook) noexcept {
    turn_hook** at = &hooks_;
    while (*at != &hook) at = &(*at)->next;
    *at = hook.next;
    hook.next = nullptr;
}

void scheduler::run_hooks() noexcept {
    const entry inside(*this);
    for (turn_hook* each = hooks_; each != nullptr; each = each->next) each->before(*each);
}

// A step may lead to another inside of it: native code calls Python, which starts native code.
void scheduler::resume_watched(std::coroutine_handle<> handle) {
    const std::int64_t outer_begin_ns = std::exchange(step_begin_ns_, now_ns());
    void* const outer_owner = std::exchange(step_owner_, nullptr);
    detail::resume(handle);
    end_step(step_owner_);
    step_begin_ns_ = outer_begin_ns;
    step_owner_ = outer_owner;
}

void scheduler::end_step(void* owner) noexcept {
    if (step_begin_ns_ == no_step) return;
    const std::int64_t took_ns = now_ns() - std::exchange(step_begin_ns_, no_step);
    if (watch_ != nullptr && took_ns >= watch_->limit_ns) watch_->slow(*watch_, owner, took_ns);
}

void scheduler::post(posted& node) noexcept {
    post_to(native_inbox_, node);
}

void scheduler::post_host(posted& node) noexcept {
    post_to(host_inbox_, node);
}

void scheduler::post_to(inbox& queue, posted& node) noexcept {
    posting_.fetch_add(1, std::memory_order_relaxed);  // published by the push
    queue.push(node);
    driver_->wake();
    posting_.fetch_sub(1, std::memory_order_release);
}

void scheduler::stop() noexcept {
    posting_.fetch_add(1, std::memory_order_relaxed);
    stop_requested_.store(true, std::memory_order_release);
    driver_->wake();
    posting_.fetch_sub(1, std::memory_order_release);
}

void scheduler::run() {
    if (current() == this)
        throw std::logic_error("ringloop: scheduler::run() inside of a turn of the same scheduler");
    const entry inside(*this);
    detail::spin_policy spin;
    while (!stop_requested_.exchange(false, std::memory_order_acquire)) {
        run_native();
        run_host();
        if (stop_requested_.load(std::memory_order_relaxed)) continue;
        if (has_native_work() || has_host_work()) {
            poll();
        } else if (driver_->in_flight() == 0 && timers_.size() == 0 && held_ == 0) {
            return;
        } else {
            detail::owner_sleep(*this, spin);
        }
    }
}

std::int64_t scheduler::next_deadline_ns() noexcept {
    return has_native_work() ? 0 : timers_.next_deadline_ns();
}

bool scheduler::has_native_work() const noexcept {
    return ready_->size() != 0 || native_posts_ != nullptr ||
           has_ending_.load(std::memory_order_relaxed) || !native_inbox_.empty() ||
           driver_->undelivered(phase::native) != 0;
}

bool scheduler::has_host_work() const noexcept {
    return host_posts_ != nullptr || !host_inbox_.empty() || driver_->undelivered(phase::host) != 0;
}

namespace {

struct sleep_question {
    const scheduler* self;
    bool (*has_work)(void*);
    void* context;
    static bool ask(void* context) noexcept {
        const auto& q = *static_cast<sleep_question*>(context);
        if (q.self->has_native_work() || q.self->has_host_work() || q.self->stop_requested())
            return true;
        return q.has_work != nullptr && q.has_work(q.context);
    }
};

}  // namespace

wait_result scheduler::wait(std::int64_t deadline_ns, std::int64_t spin_ns, bool (*has_work)(void*),
                            void* context) noexcept {
    if (hooks_ != nullptr) [[unlikely]]
        run_hooks();
    if (has_native_work() || has_host_work()) {
        poll();
        return wait_result::ready;
    }
    take_turn();
    sleep_question question{this, has_work, context};
    wait_request request;
    request.deadline_ns = std::min(deadline_ns, timers_.next_deadline_ns());
    request.spin_ns = spin_ns;
    request.has_work = &sleep_question::ask;
    request.context = &question;
    const wait_result result = driver_->wait(request);
    for (turn_hook* each = hooks_; each != nullptr; each = each->next) each->after(*each);
    return result;
}

std::size_t scheduler::run_native(std::size_t max) noexcept {
    const entry inside(*this);
    take_turn();
    if (has_ending_.load(std::memory_order_acquire)) end_ending();
    std::size_t steps = driver_->dispatch(phase::native, max);
    while (steps < max) {
        if (native_posts_ == nullptr) native_posts_ = native_inbox_.take_all();
        if (native_posts_ == nullptr) break;
        posted* node = native_posts_;
        native_posts_ = node->next;
        ++posts_run_;
        node->run(*node);
        ++steps;
    }
    if (timers_.size() != 0 && steps < max) steps += timers_.expire(now_ns(), max - steps);
    // Only what is ready now: a coroutine that yields lets I/O in before its next step.
    std::size_t count = std::min(ready_->size(), max - std::min(steps, max));
    steps += count;
    for (; count != 0; --count) resume(ready_->pop());
    return steps;
}

std::size_t scheduler::run_host(std::size_t max) noexcept {
    const entry inside(*this);
    // What handlers cause to complete or to be posted comes next time.
    std::size_t ran =
        driver_->dispatch(phase::host, std::min(max, driver_->undelivered(phase::host)));
    if (host_posts_ == nullptr) host_posts_ = host_inbox_.take_all();
    for (std::size_t posts = 0; posts != max && host_posts_ != nullptr; ++posts, ++ran) {
        posted* node = host_posts_;
        host_posts_ = node->next;
        ++posts_run_;
        node->run(*node);
    }
    return ran;
}

}  // namespace ringloop
