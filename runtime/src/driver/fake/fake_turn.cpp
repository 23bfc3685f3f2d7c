// The turn: handing over, events in the order of the virtual clock, sleeping.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "objects.hpp"
#include "ringloop/testing/fake_driver.hpp"
#include "ringloop/testing/kernel_memory.hpp"

namespace ringloop::testing {
namespace {

constexpr std::byte poison{0xdb};
constexpr std::uint64_t idle_turns_max = 100'000;
constexpr std::chrono::seconds outside_patience{10};     // real time
constexpr std::int64_t outside_jump_ns = 1'000'000'000;  // a longer one waits for others first

}  // namespace

std::unique_ptr<fake_driver> make_fake_driver(const fake_config& config) {
    return std::make_unique<fake_driver>(config);
}

fake_driver::fake_driver(const fake_config& config)
    : kernel_(config.kernel),
      random_(config.random),
      plan_(config.plan),
      file_latency_ns_(config.file_latency_ns),
      enter_cost_ns_(config.enter_cost_ns),
      steps_max_(config.steps_max),
      outside_threads_(config.outside_threads),
      random_state_(config.random.seed) {
    capabilities_.chosen = backend::fake;
    capabilities_.reason = "asked for: a simulated kernel for tests";
    capabilities_.kernel = "simulated";
    capabilities_.submission_entries = config.driver.submission_entries;
    capabilities_.completion_entries = config.driver.completion_entries;
    capabilities_.buffer_count = config.driver.buffer_count;
    capabilities_.buffer_size = config.driver.buffer_size;
    pool_.assign(std::size_t{config.driver.buffer_count} * config.driver.buffer_size, poison);
    pool_memory_ = pool_.data();
    pool_buffer_size_ = config.driver.buffer_size;
    lent_.assign(config.driver.buffer_count, false);
    for (unsigned id = config.driver.buffer_count; id != 0; --id)
        free_buffers_.push_back(static_cast<buffer_id>(id - 1));
    kernel_.on_change = [this](simulated_object& object) {
        if (!object.parked.empty()) changed_.push_back(object.shared_from_this());
    };
}

fake_driver::~fake_driver() {
    if (on_end) on_end(*this);
    kernel_.on_change = nullptr;
}

void fake_driver::abandon_after_fork() noexcept {
    forget_all();
    submissions_.clear();
    events_ = {};
    flights_.clear();
    free_flights_.clear();
}

// The earliest first; std::priority_queue puts the greatest on top.
bool fake_driver::event::operator<(const event& other) const noexcept {
    if (time_ns != other.time_ns) return time_ns > other.time_ns;
    if (key != other.key) return key > other.key;
    return sequence > other.sequence;
}

void fake_driver::schedule(std::int64_t time_ns, std::uint64_t key, event_kind kind, ticket who,
                           completion result) {
    events_.push({time_ns, key, ++sequence_, kind, who, result});
}

void fake_driver::after(std::int64_t delay_ns, std::function<void()> action) {
    actions_.push_back(std::move(action));
    schedule(now_ns_ + delay_ns, ++sequence_, event_kind::action, actions_.size() - 1);
}

// ---- operations in and out

void fake_driver::body_submit(operation& op) noexcept {
    const kernel_memory own;
    if (free_flights_.empty()) {
        free_flights_.push_back(static_cast<std::uint32_t>(flights_.size()));
        flights_.emplace_back();
    }
    const std::uint32_t index = free_flights_.back();
    free_flights_.pop_back();
    flight& f = flights_[index];
    const std::uint32_t generation = f.generation + 1;
    f = {};
    f.op = &op;
    f.generation = generation;
    const ticket who = (ticket{generation} << 32) | index;
    op.driver_word = who;
    submissions_.push_back({who, false});
    if (submissions_.size() >= capabilities_.submission_entries) enter();
}

void fake_driver::body_cancel(operation& op) noexcept {
    const kernel_memory own;
    submissions_.push_back({op.driver_word, true});
    if (submissions_.size() >= capabilities_.submission_entries) enter();
}

fake_driver::flight* fake_driver::find(ticket who) noexcept {
    const std::size_t index = who & 0xffffffff;
    if (index >= flights_.size()) return nullptr;
    flight& f = flights_[index];
    return f.op != nullptr && f.generation == who >> 32 ? &f : nullptr;
}

void fake_driver::body_release_buffer(buffer_id id) noexcept {
    const kernel_memory own;
    if (id >= lent_.size() || !lent_[id]) {
        violations_.push_back("buffer " + std::to_string(id) + " was given back twice");
        return;
    }
    lent_[id] = false;
    std::fill_n(buffer(id), buffer_size(), poison);
    free_buffers_.push_back(id);
}

// ---- the turn

void fake_driver::body_flush() noexcept {
    const kernel_memory own;
    enter();
}

void fake_driver::body_poll() noexcept {
    const kernel_memory own;
    enter();
}

void fake_driver::enter() {
    if (entering_) return;
    entering_ = true;
    now_ns_ += enter_cost_ns_;
    if (++turns_ - turns_at_progress_ > idle_turns_max) {
        turns_at_progress_ = turns_;
        fail("no progress: turn after turn in which nothing happens");
    }
    if (!submissions_.empty()) hand_over();
    retry_changed();
    run_due();
    entering_ = false;
}

void fake_driver::hand_over() {
    ++counters_.enters;
    step_record step;
    step.domain = step_domain::enter;
    step.kind = step_kind::enter;
    step.asked = static_cast<std::int64_t>(submissions_.size());
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    std::int64_t taken = step.asked;
    if (injected.kind == fault_kind::limit) {
        const std::int64_t most = injected.value < 0 ? step.asked + injected.value : injected.value;
        taken = std::clamp<std::int64_t>(most, 0, step.asked);
    }
    record_[place].result = taken;
    for (std::int64_t i = 0; i < taken; ++i) {
        const submission next = submissions_[static_cast<std::size_t>(i)];
        flight* f = find(next.who);
        if (next.cancel)
            carry_out_cancel(next.who, false);
        else if (f != nullptr)
            begin(*f, next.who);
        retry_changed();
    }
    submissions_.erase(submissions_.begin(), submissions_.begin() + taken);
}

void fake_driver::run_due() {
    const std::uint64_t completed_before = completed_;
    while (!events_.empty() && events_.top().time_ns <= now_ns_) {
        if (completed_ - completed_before >= capabilities_.completion_entries) {
            ++counters_.overflows;
            return;
        }
        const event next = events_.top();
        events_.pop();
        happen(next);
        retry_changed();
    }
}

void fake_driver::happen(const event& next) {
    if (next.kind == event_kind::action) {
        std::exchange(actions_[next.who], nullptr)();
        return;
    }
    if (next.kind == event_kind::cancel) {
        carry_out_cancel(next.who, true);
        return;
    }
    flight* f = find(next.who);
    if (f == nullptr) return;
    if (next.kind == event_kind::attempt) {
        if (f->at == stage::running || f->at == stage::held_back) attempt(*f, next.who);
        return;
    }
    operation& op = *f->op;
    if (!next.result.more) {
        f->op = nullptr;
        free_flights_.push_back(static_cast<std::uint32_t>(next.who & 0xffffffff));
    }
    ++completed_;
    turns_at_progress_ = turns_;
    const program_memory theirs;
    complete(op, next.result);
}

// ---- sleep

void fake_driver::body_signal() noexcept {
    const std::lock_guard lock(signal_mutex_);
    signalled_ = true;
    signal_.notify_one();
}

bool fake_driver::take_signal() {
    const std::lock_guard lock(signal_mutex_);
    return std::exchange(signalled_, false);
}

wait_result fake_driver::body_wait(const wait_request& request) noexcept {
    const kernel_memory own;
    const std::uint64_t completed_before = completed_;
    enter();
    if (completed_ != completed_before) return wait_result::ready;
    step_record step;
    step.domain = step_domain::wait;
    step.kind = step_kind::wait;
    std::size_t place = 0;
    const fault injected = next_fault(step, place);
    if (injected.kind == fault_kind::interrupt) return wait_result::interrupted;
    if (injected.kind == fault_kind::spurious) return wait_result::ready;
    if (injected.kind == fault_kind::jump) now_ns_ += injected.value;
    wait_result result = wait_result::ready;
    if (announce_sleep(request)) {
        result = sleep_until_event(request);
    }
    end_sleep();
    return result;
}

wait_result fake_driver::sleep_until_event(const wait_request& request) {
    const std::uint64_t completed_before = completed_;
    for (;;) {
        if (completed_ != completed_before || take_signal()) return wait_result::ready;
        if (!submissions_.empty()) {
            enter();
            continue;
        }
        const std::int64_t event_ns = events_.empty() ? no_deadline : events_.top().time_ns;
        const std::int64_t next_ns = std::min(event_ns, request.deadline_ns);
        if (next_ns == no_deadline) {
            nothing_left();
            continue;
        }
        if (outside_threads_ && next_ns - now_ns_ > outside_jump_ns && wait_for_signal())
            return wait_result::ready;
        now_ns_ = std::max(now_ns_, next_ns);
        if (event_ns > request.deadline_ns) return wait_result::timed_out;
        run_due();
        if (completed_ == completed_before && request.has_work != nullptr &&
            request.has_work(request.context))
            return wait_result::ready;
    }
}

// Other threads may have something for us: real time passes, the clock does not.
bool fake_driver::wait_for_signal() {
    std::unique_lock lock(signal_mutex_);
    const bool came = signal_.wait_for(lock, outside_patience, [&] { return signalled_; });
    return came && std::exchange(signalled_, false);
}

void fake_driver::nothing_left() {
    if (!outside_threads_) {
        fail("deadlock: nothing is left that could happen");
    } else if (wait_for_signal()) {
        body_signal();  // taken in the next round
    } else {
        fail("asleep for ever: no other thread has called wake()");
    }
}

}  // namespace ringloop::testing
