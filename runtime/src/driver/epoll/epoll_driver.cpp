// epoll_driver: starting, parking, events, sleep. See the header; attempts are in attempt.cpp.
#include "driver/epoll/epoll_driver.hpp"

#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <new>
#include <system_error>

#include "driver/bodies.hpp"
#include "driver/epoll/park_word.hpp"

namespace ringloop::epoll {
namespace {

constexpr int events_max = 256;
// Events that no descriptor has.
constexpr std::uint64_t wake_data = UINT64_MAX;
constexpr std::uint64_t timer_data = UINT64_MAX - 1;
constexpr std::uint32_t directions = EPOLLIN | EPOLLOUT | EPOLLPRI;

std::uint32_t interest_of(const operation& op) noexcept {
    switch (op.code) {
        case op_code::connect:
        case op_code::send:
        case op_code::write:
            return EPOLLOUT;
        case op_code::poll:
            return op.arguments.poll.events & ~(EPOLLERR | EPOLLHUP);
        default:
            return EPOLLIN | EPOLLRDHUP;
    }
}

// Operations of one direction take turns; a poll disturbs nobody.
std::uint32_t direction_of(const operation& op) noexcept {
    return op.code == op_code::poll ? 0 : interest_of(op) & directions;
}

// What has no readiness: epoll refuses it, and reading may go to the disk.
bool is_file(int fd) noexcept {
    struct stat found {};
    if (::fstat(fd, &found) != 0) return false;  // the attempt will say why
    return S_ISREG(found.st_mode) || S_ISDIR(found.st_mode) || S_ISBLK(found.st_mode);
}

[[noreturn]] void fail(const char* call) {
    throw std::system_error(errno, std::generic_category(),
                            std::string(call) + " failed (descriptors: see RLIMIT_NOFILE)");
}

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace

// ---- life

epoll_driver::epoll_driver(const driver_config& config)
    : kernel_driver(config), files_(config.file_threads_max, wake_fd_) {
    free_buffers_.reserve(config.buffer_count);
    for (unsigned id = config.buffer_count; id-- > 0;) {
        free_buffers_.push_back(static_cast<buffer_id>(id));
    }
    epoll_fd_ = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd_ < 0) fail("epoll_create1");
    epoll_event event{};
    const timespec none{};
    if (::epoll_pwait2(epoll_fd_, &event, 1, &none, nullptr) < 0) {
        timer_fd_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
        if (timer_fd_ < 0) fail_closed("timerfd_create");
    }
    // The wake eventfd is never read: each write is an edge.
    epoll_event wake{.events = EPOLLIN | EPOLLET, .data = {.u64 = wake_data}};
    epoll_event timer{.events = EPOLLIN | EPOLLET, .data = {.u64 = timer_data}};
    if (::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, wake_fd_, &wake) < 0 ||
        (timer_fd_ >= 0 && ::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, timer_fd_, &timer) < 0)) {
        fail_closed("epoll_ctl");
    }
    capabilities_.chosen = backend::epoll;
}

// For the constructor, behind which no destructor runs.
void epoll_driver::fail_closed(const char* call) const {
    const int error = errno;
    ::close(epoll_fd_);
    if (timer_fd_ >= 0) ::close(timer_fd_);
    errno = error;
    fail(call);
}

epoll_driver::~epoll_driver() {
    if (abandoned_) return;
    ::close(epoll_fd_);
    if (timer_fd_ >= 0) ::close(timer_fd_);
}

void epoll_driver::abandon_after_fork() noexcept {
    ::close(epoll_fd_);
    if (timer_fd_ >= 0) ::close(timer_fd_);
    files_.abandon();
    abandon_kernel_parts();
}

// ---- starting

void epoll_driver::body_submit(operation& op) noexcept {
    op.driver_word = static_cast<std::uint64_t>(place::pending);
    try {
        pending_.push_back(&op);
    } catch (const std::bad_alloc&) {
        complete(op, {.result = -ENOMEM});
    }
}

void epoll_driver::body_flush() noexcept {
    const std::size_t count = pending_.size();  // what re-arms meanwhile comes next time
    for (std::size_t i = 0; i < count; ++i) start(*pending_[i]);
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(count));
}

void epoll_driver::start(operation& op) noexcept {
    if (op.code == op_code::nop) return complete(op, {.result = 0});
    if (op.code == op_code::close) return start_close(op);
    if (waits_for_disk(op.code)) return start_file(op);
    if (op.fd < 0) return complete(op, {.result = -EBADF});
    if ((op.code == op_code::read || op.code == op_code::write) && is_file(op.fd)) {
        return start_file(op);
    }
    const std::uint32_t direction = direction_of(op);
    if (direction != 0 && static_cast<std::size_t>(op.fd) < watches_.size()) {
        for (operation* p = watches_[op.fd].first; p != nullptr; p = next_parked(*p)) {
            if ((direction_of(*p) & direction) != 0) return park(op);
        }
    }
    const outcome result = attempt(op, 0);
    if (result.what == outcome::kind::ended) return complete(op, result.last);
    park(op);
    if (result.what == outcome::kind::paused && op.armed && place_of(op) == place::parked) {
        come_back(op.fd);
    }
}

void epoll_driver::come_back(int fd) noexcept {
    watch& w = watches_[static_cast<std::size_t>(fd)];
    if (w.again) return;
    try {
        again_.push_back(fd);
        w.again = true;
    } catch (const std::bad_alloc&) {
        // Renewing makes a new edge out of what is still ready.
        static_cast<void>(renew(fd, w.interest));
    }
}

void epoll_driver::start_file(operation& op) noexcept {
    set_place(op, place::files);
    const int result = files_.post(op);
    if (result < 0) complete(op, {.result = result});
}

void epoll_driver::start_close(operation& op) noexcept {
    if (op.fd >= 0 && is_file(op.fd)) {
        forget(op.fd);
        return start_file(op);
    }
    complete(op, {.result = close(op.fd)});
}

int epoll_driver::close(int fd) noexcept {
    forget(fd);
    return kernel_driver::close(fd);
}

// ---- parking

epoll_driver::watch* epoll_driver::watch_of(int fd) noexcept {
    const auto index = static_cast<std::size_t>(fd);
    if (index >= watches_.size()) {
        try {
            watches_.resize(std::max(index + 1, watches_.size() * 2));
        } catch (const std::bad_alloc&) {
            return nullptr;
        }
    }
    return &watches_[index];
}

void epoll_driver::park(operation& op) noexcept {
    watch* w = watch_of(op.fd);
    if (w == nullptr) return complete(op, {.result = -ENOMEM});
    const std::uint32_t needed = interest_of(op);
    if (w->first == nullptr || (w->interest & needed) != needed) {
        const int result = renew(op.fd, w->first == nullptr ? needed : w->interest | needed);
        if (result == -EPERM && (op.code == op_code::read || op.code == op_code::write)) {
            return start_file(op);
        }
        if (result == -EPERM && op.code == op_code::poll && op.multishot) {
            // Always ready, and told so: nothing will ever change, so it only waits for its cancel.
        } else if (result < 0) {
            return complete(op, {.result = result});
        }
    }
    set_place(op, place::parked);
    set_next_parked(op, nullptr);
    if (w->first == nullptr) {
        w->first = &op;
        return;
    }
    operation* last = w->first;
    while (operation* next = next_parked(*last)) last = next;
    set_next_parked(*last, &op);
}

// Tells the kernel anew, which also reports what is ready already.
int epoll_driver::renew(int fd, std::uint32_t interest) noexcept {
    watch& w = watches_[static_cast<std::size_t>(fd)];
    epoll_event event{};
    event.events = interest | EPOLLET;
    for (int attempts = 0; attempts < 3; ++attempts) {
        const bool add = !w.registered;
        if (add) {
            ++w.generation;
            w.kind = stream::unknown;
        }
        event.data.u64 = std::uint64_t{w.generation} << 32 | static_cast<std::uint32_t>(fd);
        ++counters_.enters;
        if (::epoll_ctl(epoll_fd_, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event) == 0) {
            w.registered = true;
            w.interest = interest;
            return 0;
        }
        if (errno == ENOENT && !add) {
            w.registered = false;  // closed behind our back, the number reused
        } else if (errno == EEXIST && add) {
            w.registered = true;
        } else {
            return -errno;
        }
    }
    return -EBADF;
}

void epoll_driver::unpark(operation& op) noexcept {
    watch& w = watches_[static_cast<std::size_t>(op.fd)];
    if (w.first == &op) {
        w.first = next_parked(op);
        return;
    }
    operation* before = w.first;
    while (next_parked(*before) != &op) before = next_parked(*before);
    set_next_parked(*before, next_parked(op));
}

// Before a close: what is still parked is told, in vain if its owner kept the rules.
void epoll_driver::forget(int fd) noexcept {
    if (fd < 0 || static_cast<std::size_t>(fd) >= watches_.size()) return;
    watch& w = watches_[static_cast<std::size_t>(fd)];
    if (w.registered) {
        ++counters_.enters;
        ::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
        w.registered = false;
        w.interest = 0;
    }
    while (w.first != nullptr) {
        operation& op = *w.first;
        unpark(op);
        complete(op, {.result = -ECANCELED});
    }
}

void epoll_driver::body_cancel(operation& op) noexcept {
    switch (place_of(op)) {
        case place::pending:
            pending_.erase(std::find(pending_.begin(), pending_.end(), &op));
            break;
        case place::parked:
            unpark(op);
            break;
        case place::files:
            if (!files_.withdraw(op)) return;  // it runs to its end
            break;
    }
    complete(op, {.result = -ECANCELED});
}

void epoll_driver::body_release_buffer(buffer_id id) noexcept {
    free_buffers_.push_back(id);
}

// ---- events

void epoll_driver::run_watch(int fd, std::uint32_t events) noexcept {
    std::uint32_t blocked = 0;  // directions
    std::uint32_t wanted = 0;
    bool fresh = true;  // nobody has consumed what `events` tells
    operation* next = nullptr;
    for (operation* op = watches_[static_cast<std::size_t>(fd)].first; op != nullptr; op = next) {
        next = next_parked(*op);
        const std::uint32_t direction = direction_of(*op);
        wanted |= interest_of(*op);
        if ((blocked & direction) != 0) continue;
        const outcome result = attempt(*op, fresh ? events : 0);
        if (direction != 0) fresh = false;
        switch (result.what) {
            case outcome::kind::ended:
                unpark(*op);
                complete(*op, result.last);
                break;
            case outcome::kind::blocked:
                blocked |= direction;
                break;
            case outcome::kind::paused:
                blocked |= direction;
                come_back(fd);
                break;
        }
    }
    // Edges that nobody waits for must not wake us again.
    watch& w = watches_[static_cast<std::size_t>(fd)];
    if (w.registered && (events & directions & ~wanted) != 0) {
        static_cast<void>(renew(fd, wanted));
    }
}

void epoll_driver::run_again() noexcept {
    const std::size_t count = again_.size();
    for (std::size_t i = 0; i < count; ++i) {
        const int fd = again_[i];
        watches_[static_cast<std::size_t>(fd)].again = false;
        run_watch(fd, 0);
    }
    again_.erase(again_.begin(), again_.begin() + static_cast<std::ptrdiff_t>(count));
}

void epoll_driver::drain_files() noexcept {
    file_pool::finished next{};
    while (files_.collect(next)) complete(*next.op, {.result = next.result});
}

int epoll_driver::wait_for_events(std::int64_t deadline_ns, epoll_event* events,
                                  int count) noexcept {
    ++counters_.enters;
    if (deadline_ns == 0) return ::epoll_wait(epoll_fd_, events, count, 0);
    if (deadline_ns == no_deadline) return ::epoll_wait(epoll_fd_, events, count, -1);
    if (timer_fd_ < 0) {
        const std::int64_t left = std::max<std::int64_t>(1, deadline_ns - now_ns());
        const timespec timeout{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
        return ::epoll_pwait2(epoll_fd_, events, count, &timeout, nullptr);
    }
    itimerspec alarm{};
    alarm.it_value = {.tv_sec = deadline_ns / 1'000'000'000,
                      .tv_nsec = deadline_ns % 1'000'000'000};
    ::timerfd_settime(timer_fd_, TFD_TIMER_ABSTIME, &alarm, nullptr);
    return ::epoll_wait(epoll_fd_, events, count, -1);
}

int epoll_driver::collect(std::int64_t deadline_ns) noexcept {
    epoll_event events[events_max];
    const int count = wait_for_events(deadline_ns, events, events_max);
    int result = count < 0 ? -errno : 0;
    for (int i = 0; i < count; ++i) {
        const epoll_event& each = events[i];
        if (each.data.u64 == wake_data) {
            result = 1;
            continue;
        }
        if (each.data.u64 == timer_data) continue;
        const auto fd = static_cast<std::uint32_t>(each.data.u64);
        const auto generation = static_cast<std::uint32_t>(each.data.u64 >> 32);
        if (watches_[fd].registered && watches_[fd].generation == generation) {
            run_watch(static_cast<int>(fd), each.events);
        } else {
            ++counters_.stale;
        }
    }
    drain_files();
    return result;
}

void epoll_driver::body_poll() noexcept {
    body_flush();
    run_again();
    collect(0);
    // A guest's poller must learn of what no event will tell.
    if (!again_.empty() || !pending_.empty()) body_signal();
}

// ---- sleep

// Looks at user memory only: here, readiness is not there.
bool epoll_driver::spin(const wait_request& request, std::int64_t now) noexcept {
    const std::int64_t end = std::min(request.deadline_ns, now + request.spin_ns);
    for (unsigned round = 1;; ++round) {
        if (files_.has_finished()) return true;
        if (request.has_work != nullptr && request.has_work(request.context)) return true;
        relax();
        if (round % 16 == 0 && now_ns() >= end) return false;
    }
}

wait_result epoll_driver::body_wait(const wait_request& request) noexcept {
    const bool timed = request.deadline_ns != no_deadline;
    for (;;) {
        const std::size_t before = undelivered_total();
        body_flush();
        run_again();
        const bool busy = !again_.empty() || !pending_.empty() || rearm_due();
        if (busy || undelivered_total() != before) {
            collect(0);  // the others have waited, too
            return wait_result::ready;
        }
        const std::int64_t now = timed || request.spin_ns > 0 ? now_ns() : 0;
        if (timed && request.deadline_ns <= now) {
            collect(0);
            return undelivered_total() != before ? wait_result::ready : wait_result::timed_out;
        }
        if (request.spin_ns > 0 && spin(request, now)) {
            collect(0);
            return wait_result::ready;
        }
        if (!announce_sleep(request)) {
            end_sleep();
            collect(0);
            return wait_result::ready;
        }
        const int result = collect(request.deadline_ns);
        end_sleep();
        if (result == 1 || undelivered_total() != before) return wait_result::ready;
        if (result == -EINTR) return wait_result::interrupted;
        if (timed && now_ns() >= request.deadline_ns) return wait_result::timed_out;
    }
}

}  // namespace ringloop::epoll

namespace ringloop {

std::unique_ptr<driver> make_epoll_driver(const driver_config& config, std::string reason,
                                          std::vector<std::string> missing) {
    auto body = std::make_unique<epoll::epoll_driver>(config);
    body->explain(std::move(reason), std::move(missing));
    return body;
}

}  // namespace ringloop
