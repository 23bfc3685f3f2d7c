// driver: the books that every body shares: what is in flight, what has completed, what is to be
// armed again, and the protocol that keeps wake-ups from getting lost.
//
// Thread: the driver's, but for wake(). No system call is made here.
//
// Invariants
//  1. armed      <=> the body has the operation: cancelling it is the body's business.
//  2. in flight and not armed <=> it waits in `starved_` or `ended_`, or its last completion is
//     queued.
//  3. An operation's last completion is the last entry of it in its queue.
//  4. Room for the ends of all operations in flight is made when they are submitted: a completion
//     of a one-shot operation allocates nothing.
#include "ringloop/driver.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <new>
#include <utility>

namespace ringloop {
namespace {

// May be ended by the kernel and started again without the owner noticing.
bool restartable(const operation& op) noexcept {
    switch (op.code) {
        case op_code::accept:
        case op_code::receive:
        case op_code::receive_into:
        case op_code::poll:
            return true;
        default:
            return false;
    }
}

// Interrupted before it did anything: may be started again as if nothing had been.
bool repeatable(const operation& op) noexcept {
    return op.code != op_code::connect && op.code != op_code::close;
}

// A multishot operation that ended with this result ended without a cause.
bool ended_early(const operation& op, std::int32_t result) noexcept {
    return op.multishot && (op.code == op_code::receive ? result > 0 : result >= 0);
}

constexpr std::size_t room_min = 64;  // operations

bool erase_one(std::vector<operation*>& from, const operation& op) noexcept {
    const auto place = std::find(from.begin(), from.end(), &op);
    if (place == from.end()) return false;
    from.erase(place);
    return true;
}

}  // namespace

// ---- completion queue

void driver::completion_queue::grow() {
    const std::size_t count = size();
    const std::size_t larger = capacity_ == 0 ? 64 : capacity_ * 2;
    auto slots = std::make_unique<queued[]>(larger);
    for (std::size_t i = 0; i < count; ++i) slots[i] = at(i);
    slots_ = std::move(slots);
    capacity_ = larger;
    head_ = 0;
    tail_ = count;
}

driver::queued driver::completion_queue::purge(std::size_t index) noexcept {
    const queued entry = std::exchange(at(index), {nullptr, {}});
    ++holes_;
    while (size() != 0 && at(0).op == nullptr) static_cast<void>(pop());
    return entry;
}

// ---- life

driver::driver() : thread_(std::this_thread::get_id()) {
    reserve(room_min);
}

driver::~driver() {
    assert(in_flight_ == 0 && "a driver died with operations in flight");
}

void driver::forget_all() noexcept {
    while (first_ != nullptr) {
        operation& op = *first_;
        unlink(op);
        op.state = op_state::done;
        op.armed = op.moving = false;
    }
    for (completion_queue& each : queues_) {
        while (each.size() != 0) static_cast<void>(each.pop());
    }
    starved_.clear();
    ended_.clear();
    moving_ = 0;
    leased_ = 0;
}

// ---- operations

void driver::link(operation& op) noexcept {
    op.previous = nullptr;
    op.next = first_;
    if (first_ != nullptr) first_->previous = &op;
    first_ = &op;
    ++in_flight_;
}

void driver::unlink(operation& op) noexcept {
    if (op.previous != nullptr) {
        op.previous->next = op.next;
    } else {
        first_ = op.next;
    }
    if (op.next != nullptr) op.next->previous = op.previous;
    op.previous = op.next = nullptr;
    --in_flight_;
}

void driver::reserve(std::size_t operations) {
    for (completion_queue& each : queues_) each.reserve(2 * operations);
    starved_.reserve(2 * operations);
    ended_.reserve(2 * operations);
    room_ = operations;
}

void driver::make_room() noexcept {
    if (in_flight_ < room_) return;
    try {
        reserve(2 * room_);
    } catch (const std::bad_alloc&) {
        return;  // there is room for as many again; the next one that is submitted tries anew
    }
}

void driver::arm(operation& op) noexcept {
    op.armed = true;
    body_submit(op);
}

void driver::submit(operation& op) noexcept {
    assert(!op.in_flight() && "an operation was submitted twice");
    op.state = op_state::submitted;
    op.cancel_requested = false;
    op.moving = false;
    make_room();
    link(op);
    ++counters_.submitted;
    arm(op);
}

void driver::cancel(operation& op) noexcept {
    if (!op.in_flight() || op.cancel_requested) return;
    op.cancel_requested = true;
    if (op.armed) {
        body_cancel(op);
        return;
    }
    // Else its last completion is queued already.
    if (erase_one(starved_, op) || erase_one(ended_, op)) push(op, {.result = -ECANCELED});
}

void driver::retire(operation& op) noexcept {
    if (!op.in_flight()) return;
    cancel(op);
    while (!deliver_queued(op)) {
        // Its last completion is not here yet; what the body waits for includes it.
        const std::size_t before = undelivered_total();
        rearm();  // may bring it, where the submission queue fills up
        body_poll();
        if (undelivered_total() == before) body_wait({});
    }
}

void driver::flush() noexcept {
    rearm();
    body_flush();
}

// ---- completions

void driver::complete(operation& op, const completion& result) noexcept {
    assert(op.in_flight() && op.armed && "a completion for an operation that the body has not");
    completion c = result;
    if (c.buffer != no_buffer) {
        if (c.result > 0) {
            ++leased_;
        } else {
            body_release_buffer(c.buffer);
            c.buffer = no_buffer;
        }
    }
    if (c.more) {
        push(op, c);
    } else {
        end(op, c);
    }
}

// The body's last word on `op`: is it the owner's last one, too?
void driver::end(operation& op, completion last) noexcept {
    op.armed = false;
    if (op.moving) {
        op.moving = false;
        --moving_;
    }
    if (op.cancel_requested) {
        const bool interrupted = last.result == -EINTR && repeatable(op);
        if (last.result == -ENOBUFS || interrupted) last.result = -ECANCELED;
        push(op, last);
        return;
    }
    // Arming waits for the next turn: a body that is busy reaping must not submit.
    if (last.result == -ENOBUFS && op.code == op_code::receive) {
        ++counters_.starved;
        starved_.push_back(&op);
    } else if ((last.result == -ECANCELED && restartable(op)) ||
               (last.result == -EINTR && repeatable(op))) {
        ended_.push_back(&op);
    } else if (ended_early(op, last.result)) {
        last.more = true;
        push(op, last);
        ended_.push_back(&op);
    } else {
        push(op, last);
    }
}

void driver::rearm() noexcept {
    if (!ended_.empty()) rearm_first(ended_, ended_.size());
    if (!starved_.empty() && leased_ < capabilities_.buffer_count) {
        rearm_first(starved_, std::min<std::size_t>(starved_.size(), rearm_max));
    }
}

// Arming may complete at once and queue the operation anew, behind the others.
void driver::rearm_first(std::vector<operation*>& waiting, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) arm(*waiting[i]);
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(count));
}

// Returns whether it was the operation's last; the operation may be gone then.
bool driver::deliver(const queued& entry) noexcept {
    operation& op = *entry.op;
    const bool last = !entry.result.more;
    ++counters_.completions;
    if (last) {
        op.state = op_state::done;
        unlink(op);
    }
    if (op.on_complete != nullptr) {
        op.on_complete(op, entry.result);
    } else if (entry.result.buffer != no_buffer) {
        release_buffer(entry.result.buffer);
    }
    return last;
}

// For retire(): delivers what is queued for `op`, in order; true if its last one was among it.
bool driver::deliver_queued(operation& op) noexcept {
    completion_queue& mine = queue(op.host ? phase::host : phase::native);
    for (std::size_t i = 0; i < mine.size();) {
        if (mine.at(i).op != &op) {
            ++i;
            continue;
        }
        if (deliver(mine.purge(i))) return true;
        i = 0;  // the handler may have changed the queue
    }
    return false;
}

std::size_t driver::dispatch(phase which, std::size_t max) noexcept {
    completion_queue& mine = queue(which);
    std::size_t left = mine.size();  // what handlers cause to complete comes next time
    std::size_t delivered = 0;
    while (left != 0 && delivered < max && mine.size() != 0) {
        --left;
        const queued entry = mine.pop();
        if (entry.op == nullptr) continue;
        deliver(entry);
        ++delivered;
    }
    return delivered;
}

// ---- the turn

void driver::poll() noexcept {
    end_sleep();  // of a guest that parked
    rearm();
    body_poll();
}

wait_result driver::wait(const wait_request& request) noexcept {
    end_sleep();  // of a guest that parked
    rearm();
    if (undelivered_total() != 0 || rearm_due()) {
        body_poll();
        return wait_result::ready;
    }
    return body_wait(request);
}

bool driver::park(const wait_request& request) noexcept {
    flush();
    if (undelivered_total() != 0 || rearm_due()) return false;
    return announce_sleep(request);
}

bool driver::announce_sleep(const wait_request& request) noexcept {
    announced_ = true;
    ++counters_.sleeps;
    sleep_.announce();
    return request.has_work == nullptr || !request.has_work(request.context);
}

void driver::end_sleep() noexcept {
    if (!announced_) return;
    announced_ = false;
    if (sleep_.end()) ++counters_.wake_writes;
}

void driver::wake() noexcept {
    if (sleep_.claim_wake()) body_signal();
}

bool driver::adopt_thread() noexcept {
    const std::thread::id here = std::this_thread::get_id();
    if (here == thread_) return true;
    if (pinned_) return false;
    if (body_moves_freely()) {
        thread_ = here;
        return true;
    }
    body_poll();  // what the other thread's end has already cancelled
    for (operation* op = first_; op != nullptr; op = op->next) {
        if (op->armed && op->code != op_code::nop && !restartable(*op)) return false;
    }
    thread_ = here;
    for (operation* op = first_; op != nullptr; op = op->next) {
        if (!op->armed || op->cancel_requested) continue;
        op->moving = true;
        ++moving_;
        body_cancel(*op);
    }
    body_adopt_thread();
    while (moving_ != 0) body_wait({});
    flush();
    return true;
}

// ---- the receive pool

void driver::release_buffer(buffer_id id) noexcept {
    assert(leased_ != 0 && "a buffer was given back twice");
    --leased_;
    body_release_buffer(id);
}

}  // namespace ringloop
