// Caught signals: one slot a number, which the handler reads.
//
// The handler may run on any thread while the catcher ends on its own. So a catcher first takes
// itself out of the slots and then waits until no handler is running: none of them can then write
// to its eventfd, whose number may be somebody else's soon.
#include "driver/signal_catcher.hpp"

#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "ringloop/error.hpp"

namespace ringloop::detail {
namespace {

struct slot {
    std::atomic<int> eventfd{-1};  // -1: free
    std::atomic<unsigned> count{0};
};

std::array<slot, NSIG> slots;
std::atomic<unsigned> handlers_running{0};

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<unsigned>::is_always_lock_free);

void write_one(int eventfd) noexcept {
    const std::uint64_t one = 1;
    // Fails if the counter is full, and then its reader wakes anyway.
    [[maybe_unused]] const ssize_t written = ::write(eventfd, &one, sizeof one);
}

void on_signal(int number) noexcept {
    const int saved = errno;
    handlers_running.fetch_add(1, std::memory_order_seq_cst);
    slot& mine = slots[static_cast<std::size_t>(number)];
    const int fd = mine.eventfd.load(std::memory_order_seq_cst);
    if (fd >= 0) {
        mine.count.fetch_add(1, std::memory_order_release);
        write_one(fd);
    }
    handlers_running.fetch_sub(1, std::memory_order_release);
    errno = saved;
}

void check_number(int number) {
    static constexpr std::array<int, 6> others{SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    const bool exists = number > 0 && number < NSIG;
    if (exists && std::find(others.begin(), others.end(), number) == others.end()) return;
    throw std::invalid_argument("ringloop: signal " + std::to_string(number) +
                                (exists ? " cannot be waited for" : " does not exist"));
}

}  // namespace

signal_catcher::signal_catcher(std::span<const int> numbers) {
    for (const int number : numbers) check_number(number);
    caught_.reserve(numbers.size());
    eventfd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (eventfd_ < 0) throw_error(errno, "make an eventfd for signals");
    try {
        for (const int number : numbers) claim(number);
    } catch (...) {
        release();
        throw;
    }
}

signal_catcher::~signal_catcher() {
    release();
}

void signal_catcher::claim(int number) {
    slot& mine = slots[static_cast<std::size_t>(number)];
    int none = -1;
    if (!mine.eventfd.compare_exchange_strong(none, eventfd_))
        throw std::logic_error("ringloop: signal " + std::to_string(number) +
                               " is waited for already");
    mine.count.store(0, std::memory_order_relaxed);
    struct sigaction ours {};
    ours.sa_handler = &on_signal;
    ours.sa_flags = SA_RESTART | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    struct sigaction before {};
    if (::sigaction(number, &ours, &before) < 0) {
        const int error_number = errno;
        mine.eventfd.store(-1);
        throw_error(error_number, ("catch signal " + std::to_string(number)).c_str());
    }
    caught_.push_back({number, before});
}

void signal_catcher::release() noexcept {
    for (const caught& each : caught_) {
        struct sigaction current {};
        ::sigaction(each.number, nullptr, &current);
        // Else somebody has taken the signal over meanwhile.
        if (current.sa_handler == &on_signal) ::sigaction(each.number, &each.before, nullptr);
        slots[static_cast<std::size_t>(each.number)].eventfd.store(-1, std::memory_order_seq_cst);
    }
    while (handlers_running.load(std::memory_order_seq_cst) != 0) ::sched_yield();
    ::close(eventfd_);
}

int signal_catcher::counted() noexcept {
    for (const caught& each : caught_) {
        std::atomic<unsigned>& count = slots[static_cast<std::size_t>(each.number)].count;
        if (count.load(std::memory_order_acquire) == 0) continue;
        count.fetch_sub(1, std::memory_order_relaxed);  // only we take
        return each.number;
    }
    return 0;
}

int signal_catcher::take() noexcept {
    if (const int number = counted(); number != 0) return number;
    std::uint64_t value = 0;
    // Fails if it is not readable, as wanted.
    [[maybe_unused]] const ssize_t count = ::read(eventfd_, &value, sizeof value);
    const int number = counted();
    // It came in between, and more may have: whoever else waits shall look.
    if (number != 0) write_one(eventfd_);
    return number;
}

}  // namespace ringloop::detail
