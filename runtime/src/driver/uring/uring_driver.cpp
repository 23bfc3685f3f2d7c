// uring_driver: submission, completion, sleep. See the header.
#include "driver/uring/uring_driver.hpp"

#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>

#include "driver/bodies.hpp"

namespace ringloop::uring {
namespace {

// user_data of what the driver submits for itself: bit 63, which no slot has.
constexpr std::uint64_t internal_bit = std::uint64_t{1} << 63;
constexpr std::uint64_t cancel_tag = internal_bit | 1;
constexpr std::uint64_t wake_tag = internal_bit | 2;
// Flushing an overflowed queue repeats this often at most within one reap.
constexpr int overflow_rounds_max = 64;

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

uring_driver::uring_driver(const driver_config& config, std::vector<std::string>& missing)
    : kernel_driver(config), workers_(config.file_threads_max, wake_fd_) {
    ring_ = open_ring(config, pool_memory_, capabilities_, missing);
    capabilities_.chosen = backend::uring;
    pinned_ = config.pinned;
    arm_wake_poll();
    enter_to_submit();
}

uring_driver::~uring_driver() {
    if (!abandoned_) close_ring(ring_);
}

void uring_driver::abandon_after_fork() noexcept {
    ::close(ring_.io.ring_fd);  // its mappings are not here: no unmapping
    workers_.abandon();
    abandon_kernel_parts();
}

// ---- submission

// With the queue full, entries go to the kernel now; it takes none only while its completion queue
// overflows or memory is short, so make room there and try again.
io_uring_sqe* uring_driver::next_sqe() noexcept {
    for (;;) {
        if (io_uring_sqe* sqe = ::io_uring_get_sqe(&ring_.io)) return sqe;
        enter_to_submit();
        if (::io_uring_sq_space_left(&ring_.io) == 0) {
            reap();
            ::sched_yield();
        }
    }
}

void uring_driver::enter_to_submit() noexcept {
    ++counters_.enters;
    // A failure leaves the entries queued: the next enter takes them.
    static_cast<void>(::io_uring_submit(&ring_.io));
}

std::uint64_t uring_driver::take_slot(operation& op) {
    if (free_slot_ == no_slot) {
        const std::size_t size = slots_.size();
        const std::size_t larger = size == 0 ? 64 : size * 2;
        slots_.resize(larger);
        for (std::size_t i = larger; i-- > size;) {
            slots_[i] = {nullptr, 1, free_slot_};
            free_slot_ = static_cast<std::uint32_t>(i);
        }
    }
    const std::uint32_t index = free_slot_;
    slot& s = slots_[index];
    free_slot_ = s.next_free;
    s.op = &op;
    return std::uint64_t{s.generation} << 32 | index;
}

void uring_driver::body_submit(operation& op) noexcept {
    if (op.code == op_code::call) return start_call(op);
    io_uring_sqe* sqe = next_sqe();
    describe(op, *sqe);
    op.driver_word = take_slot(op);
    ::io_uring_sqe_set_data64(sqe, op.driver_word);
}

void uring_driver::cancel_user_data(std::uint64_t user_data) noexcept {
    io_uring_sqe* sqe = next_sqe();
    ::io_uring_prep_cancel64(sqe, user_data, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    ::io_uring_sqe_set_data64(sqe, cancel_tag);
}

void uring_driver::body_cancel(operation& op) noexcept {
    if (op.code != op_code::call) return cancel_user_data(op.driver_word);
    if (!workers_.withdraw(op)) return;  // it runs to its end
    --calls_;
    complete(op, {.result = -ECANCELED});
}

void uring_driver::start_call(operation& op) noexcept {
    const int result = workers_.post(op);
    if (result < 0) return complete(op, {.result = result});
    ++calls_;
}

std::size_t uring_driver::drain_calls() noexcept {
    std::size_t count = 0;
    for (file_pool::finished next{}; workers_.collect(next); ++count) {
        --calls_;
        complete(*next.op, {.result = next.result});
    }
    return count;
}

void uring_driver::body_flush() noexcept {
    if (pending()) enter_to_submit();
}

void uring_driver::body_release_buffer(buffer_id id) noexcept {
    ::io_uring_buf_ring_add(ring_.buffers, buffer(id), static_cast<unsigned>(pool_buffer_size_), id,
                            static_cast<int>(ring_.buffers_mask), 0);
    ::io_uring_buf_ring_advance(ring_.buffers, 1);
}

// ---- registered memory

int uring_driver::register_memory(std::span<std::byte> memory) noexcept {
    if (!has_table_) {
        const int made = ::io_uring_register_buffers_sparse(&ring_.io, registered_max);
        if (made < 0) return made;
        has_table_ = true;
    }
    const int number = std::countr_one(registered_);
    if (number == registered_max) return -ENOSPC;
    const iovec piece{memory.data(), memory.size()};
    const int put = ::io_uring_register_buffers_update_tag(&ring_.io, static_cast<unsigned>(number),
                                                           &piece, nullptr, 1);
    if (put < 0) return put;
    registered_ |= std::uint64_t{1} << number;
    return number;
}

void uring_driver::unregister_memory(int number) noexcept {
    const iovec none{};
    [[maybe_unused]] const int taken = ::io_uring_register_buffers_update_tag(
        &ring_.io, static_cast<unsigned>(number), &none, nullptr, 1);
    assert(taken == 1);
    registered_ &= ~(std::uint64_t{1} << number);
}

void uring_driver::arm_wake_poll() noexcept {
    if (wake_armed_) return;
    wake_armed_ = true;
    io_uring_sqe* sqe = next_sqe();
    ::io_uring_prep_poll_multishot(sqe, wake_fd_, POLLIN);
    ::io_uring_sqe_set_data64(sqe, wake_tag);
}

void uring_driver::body_adopt_thread() noexcept {
    cancel_user_data(wake_tag);
    enter_to_submit();
    while (wake_armed_) {
        reap();
        if (!wake_armed_) break;
        ++counters_.enters;
        static_cast<void>(::io_uring_submit_and_wait(&ring_.io, 1));
    }
    arm_wake_poll();
}

// ---- completion

unsigned uring_driver::kernel_asks() const noexcept {
    return IO_URING_READ_ONCE(*ring_.io.sq.kflags) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

// Returns whether it is news for the owner.
bool uring_driver::take(const io_uring_cqe& cqe) noexcept {
    const bool more = (cqe.flags & IORING_CQE_F_MORE) != 0;
    if (cqe.user_data == cancel_tag) return false;
    if (cqe.user_data == wake_tag) {
        if (!more) wake_armed_ = false;
        return true;
    }
    completion c{.result = cqe.res, .more = more};
    if ((cqe.flags & IORING_CQE_F_BUFFER) != 0) {
        c.buffer = static_cast<buffer_id>(cqe.flags >> IORING_CQE_BUFFER_SHIFT);
    }
    const auto index = static_cast<std::uint32_t>(cqe.user_data);
    const auto generation = static_cast<std::uint32_t>(cqe.user_data >> 32);
    if (index >= slots_.size() || slots_[index].op == nullptr ||
        slots_[index].generation != generation) {
        ++counters_.stale;
        if (c.buffer != no_buffer) body_release_buffer(c.buffer);
        return false;
    }
    slot& s = slots_[index];
    operation& op = *s.op;
    if (!more) {
        s.op = nullptr;
        s.generation = s.generation == 0x7fffffff ? 1 : s.generation + 1;
        s.next_free = free_slot_;
        free_slot_ = index;
    }
    if (op.code == op_code::accept && op.multishot && c.result >= 0) c.result = accept_now(op);
    complete(op, c);
    return true;
}

// A repeating accept is a poll to the kernel, and the accepting is done here, in the turn: the
// kernel's own would take connections for a process that is busy, away from others that share the
// listener and have time. Returns what ends the poll: unless accepting failed, it is armed anew.
int uring_driver::accept_now(operation& op) noexcept {
    const int ended = op.cancel_requested ? 0 : accept_waiting(op);
    return ended == 0 || ended == -EAGAIN ? -EINTR : ended;
}

// Handling a completion never submits, so this never recurses.
uring_driver::news uring_driver::reap() noexcept {
    news found;
    io_uring_cq& cq = ring_.io.cq;
    const unsigned mask = *cq.kring_mask;
    for (int round = 0;; ++round) {
        const unsigned count = ::io_uring_cq_ready(&ring_.io);
        const unsigned head = *cq.khead;
        for (unsigned i = 0; i < count; ++i) {
            ++(take(cq.cqes[(head + i) & mask]) ? found.owners : found.internal);
        }
        ::io_uring_cq_advance(&ring_.io, count);
        if ((kernel_asks() & IORING_SQ_CQ_OVERFLOW) == 0 || round == overflow_rounds_max) break;
        ++counters_.overflows;
        ++counters_.enters;
        if (::io_uring_get_events(&ring_.io) < 0) break;
    }
    if (calls_ != 0) found.owners += drain_calls();
    return found;
}

void uring_driver::body_poll() noexcept {
    arm_wake_poll();
    if (kernel_asks() != 0) {
        ++counters_.enters;
        static_cast<void>(::io_uring_submit_and_get_events(&ring_.io));
    } else if (pending()) {
        enter_to_submit();
    }
    reap();
}

// ---- sleep

// Looks at user memory only.
bool uring_driver::spin(const wait_request& request, std::int64_t now) noexcept {
    const std::int64_t end = std::min(request.deadline_ns, now + request.spin_ns);
    for (unsigned round = 1;; ++round) {
        if (::io_uring_cq_ready(&ring_.io) != 0 || kernel_asks() != 0) return true;
        if (calls_ != 0 && workers_.has_finished()) return true;
        if (request.has_work != nullptr && request.has_work(request.context)) return true;
        relax();
        if (round % 16 == 0 && now_ns() >= end) return false;
    }
}

int uring_driver::sleep(const wait_request& request, std::int64_t now) noexcept {
    ++counters_.enters;
    if (request.deadline_ns == no_deadline) return ::io_uring_submit_and_wait(&ring_.io, 1);
    const std::int64_t left = request.deadline_ns - now;
    __kernel_timespec timeout{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    io_uring_cqe* cqe = nullptr;
    return ::io_uring_submit_and_wait_timeout(&ring_.io, &cqe, 1, &timeout, nullptr);
}

wait_result uring_driver::body_wait(const wait_request& request) noexcept {
    const bool timed = request.deadline_ns != no_deadline;
    for (;;) {
        if (reap().owners != 0) {
            body_flush();
            return wait_result::ready;
        }
        const std::int64_t now = timed || request.spin_ns > 0 ? now_ns() : 0;
        if (timed && request.deadline_ns <= now) {
            body_poll();
            return undelivered_total() != 0 ? wait_result::ready : wait_result::timed_out;
        }
        if (request.spin_ns > 0) {
            body_flush();
            if (spin(request, now)) {
                if (kernel_asks() != 0) {
                    ++counters_.enters;
                    static_cast<void>(::io_uring_get_events(&ring_.io));
                }
                reap();
                return wait_result::ready;
            }
        }
        arm_wake_poll();
        if (!announce_sleep(request)) {
            end_sleep();
            body_poll();
            return wait_result::ready;
        }
        const int result = sleep(request, now);
        end_sleep();
        const news found = reap();
        if (found.owners != 0) return wait_result::ready;
        if (result == -EINTR) return wait_result::interrupted;
        if (found.internal != 0) continue;
        if (timed && now_ns() >= request.deadline_ns) return wait_result::timed_out;
        // It submitted, and then a signal ended the wait: the count hides the EINTR.
        if (result >= 0) return wait_result::interrupted;
        if (result != -ETIME) return wait_result::ready;  // short of memory: let the owner breathe
    }
}

}  // namespace ringloop::uring

namespace ringloop {

std::unique_ptr<driver> make_uring_driver(const driver_config& config, std::string reason,
                                          std::vector<std::string>* missing) {
    std::vector<std::string> unused;
    auto body = std::make_unique<uring::uring_driver>(config, missing ? *missing : unused);
    body->explain(std::move(reason), {});
    return body;
}

}  // namespace ringloop
