// The life of a shared handle: memory, loop, turns, producers' processes, end. Contract in
// shared_handle.hpp.
#include "shared_handle.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <new>
#include <utility>

#include "handle_sources.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/shared_handles.hpp"
#include "ringloop/memory.hpp"

namespace ringloop::bridge {

long shared_handles_live = 0;

namespace {

unsigned fork_count = 0;  // how many forks this process is away from the first one

completion_source& source_of(void* owner) noexcept {
    return *static_cast<completion_source*>(owner);
}

std::uint32_t process_of(std::uint64_t owner) noexcept {
    return static_cast<std::uint32_t>(owner);
}
std::uint32_t count_of(std::uint64_t owner) noexcept {
    return static_cast<std::uint32_t>(owner >> 32);
}
std::uint32_t own_process() noexcept {
    return static_cast<std::uint32_t>(::getpid());
}

int open_pidfd(std::uint32_t pid) noexcept {
    if (pid > INT_MAX) return -ESRCH;
    const long fd = ::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0U);
    return fd < 0 ? -errno : static_cast<int>(fd);
}

bool has_ended(std::uint32_t pid) noexcept {
    const int pidfd = open_pidfd(pid);
    if (pidfd < 0) return pidfd == -ESRCH;
    pollfd process{pidfd, POLLIN, 0};
    const bool ended = ::poll(&process, 1, 0) > 0;
    ::close(pidfd);
    return ended;
}

// Starts `work` on the running loop; null with an exception set.
ref started(std::unique_ptr<source> work) noexcept {
    ref made = ref::steal(new_awaitable(std::move(work)));
    if (made && reinterpret_cast<awaitable*>(made.get())->start() < 0) made = ref();
    return made;
}

void stop(const ref& made) noexcept {
    if (made) reinterpret_cast<awaitable*>(made.get())->cancel(nullptr);
}

}  // namespace

// ---- memory

shared_handle* shared_handle::make(int memory_fd, int wake_fd, unsigned lanes,
                                   unsigned slots) noexcept {
    static const int at_fork = pthread_atfork(nullptr, nullptr, [] { ++fork_count; });
    static_cast<void>(at_fork);
    auto* made = new (std::nothrow) shared_handle();
    if (made == nullptr) {
        close_descriptor(memory_fd);
        close_descriptor(wake_fd);
        return PyErr_NoMemory(), nullptr;
    }
    ++shared_handles_live;
    made->memory_fd_ = memory_fd;
    made->view_.wake_fd = wake_fd;
    made->view_.alive_fd = -1;
    made->view_.lane = -1;
    made->forks_ = fork_count;
    const std::uint64_t size = ringloop_handle_memory_size(lanes, slots);
    void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (memory == MAP_FAILED) {
        raise_errno(errno);
        made->release();
        return nullptr;
    }
    made->memory_ = memory;
    ringloop::memory::took(ringloop::memory::kind::shared_handles, memory, size);
    ringloop_handle_place(&made->view_, memory, lanes, slots);
    try {
        made->consumer_ = std::make_unique<handle_consumer>(made->view_);
        made->producers_ = std::make_unique<producer[]>(lanes);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        made->release();
        return nullptr;
    }
    return made;
}

shared_handle::~shared_handle() {
    if (memory_ != nullptr) {
        memory::gave_back(memory::kind::shared_handles, memory_, view_.size);
        ::munmap(memory_, view_.size);
    }
    close_descriptor(view_.wake_fd);
    close_descriptor(memory_fd_);
    --shared_handles_live;
}

void shared_handle::close_descriptor(int fd) noexcept {
    ::close(fd);
}

bool shared_handle::forked() const noexcept {
    return forks_ != fork_count;
}

// ---- its loop

// It may be used here and now; else false with an exception set. Binds it the first time.
bool shared_handle::usable() noexcept {
    if (forked()) {
        PyErr_SetString(
            PyExc_RuntimeError,
            "this shared handle belongs to the parent of this process: give the "
            "descriptors of share() to the child, and call SharedHandle.attach() there");
        return false;
    }
    if (!closed_ && host_ == nullptr &&
        !started(std::unique_ptr<source>(new (std::nothrow) wake_source(*this))))
        return false;
    if (!closed_) return true;
    PyErr_SetString(PyExc_RuntimeError, loop_ended_
                                            ? "the shared handle is closed: its loop was closed"
                                            : "the shared handle is closed");
    return false;
}

bool shared_handle::may_submit(unsigned lane) noexcept {
    if (!usable()) return false;
    if (producers_[lane].gone) look_at_owners();
    if (!producers_[lane].gone) return true;
    raise_os_error(ECONNRESET,
                   "the producer of lane %u has ended: attach another one before you submit to it",
                   lane);
    return false;
}

PyObject* shared_handle::submit(unsigned lane) noexcept {
    if (!may_submit(lane)) return nullptr;
    auto* work = new (std::nothrow) completion_source(*this);
    if (work == nullptr) return PyErr_NoMemory();
    std::unique_ptr<source> owned(work);
    ringloop_token token = 0;
    switch (consumer_->reserve(lane, work, token)) {
        case handle_consumer::reservation::made:
            break;
        case handle_consumer::reservation::full:
            raise_os_error(EAGAIN,
                           "all %u slots of lane %u are reserved: await completions first, or make "
                           "the handle with more slots",
                           view_.slots, lane);
            return nullptr;
        case handle_consumer::reservation::no_memory:
            return PyErr_NoMemory();
    }
    work->reserved(token);
    ref awaited = ref::steal(new_awaitable(std::move(owned)));
    ref number = ref::steal(PyLong_FromUnsignedLongLong(token));
    PyObject* pair = awaited && number ? PyTuple_New(2) : nullptr;
    if (pair == nullptr) return nullptr;
    PyTuple_SET_ITEM(pair, 0, number.release());
    PyTuple_SET_ITEM(pair, 1, awaited.release());
    return pair;
}

void shared_handle::turn() noexcept {
    consumer_->end_sleep();
    // Without waiting, whatever another process did to the descriptor: it may have taken the count.
    std::uint64_t count = 0;
    ssize_t size = host_->native().io().try_pread(view_.wake_fd, &count, sizeof count, -1);
    if (size == -EOPNOTSUPP)  // before Linux 5.8
        size = ::read(view_.wake_fd, &count, sizeof count);
    if (size > 0) wakes_ += count;
    consumer_->drain(
        [](void* owner, const ringloop_record& record) { source_of(owner).arrived(record); });
    if (consumer_->version_changed()) look_at_owners();
}

// ---- producers that are processes

// Starting and stopping a watch may run a guest's turn, and with it this function again.
void shared_handle::look_at_owners() noexcept {
    for (unsigned lane = 0; lane < view_.lanes; ++lane) {
        producer& known = producers_[lane];
        const std::uint64_t now = consumer_->owner(lane);
        if (now == known.owner) continue;
        const std::uint64_t before = std::exchange(known.owner, now);
        const std::uint32_t pid = process_of(now);
        const bool first = process_of(before) == 0 && count_of(now) == count_of(before) + 1;
        if (pid == 0 || !first) end_lane(lane, process_of(before));
        stop(std::exchange(known.watch, ref()));
        if (known.asked_pid == process_of(before)) stop(std::exchange(known.asked, ref()));
        known.gone = pid == 0 && !known.asked;
        if (pid != 0 && pid != own_process() && begin_watch(lane, pid, known.watch) < 0)
            report_unwatched(lane, pid);
    }
}

// What it completed before it ended is delivered first.
void shared_handle::end_lane(unsigned lane, std::uint32_t pid) noexcept {
    producers_[lane].gone = true;
    const auto deliver = [](void* owner, const ringloop_record& record) {
        source_of(owner).arrived(record);
    };
    // It had no more than its slots; who goes on storing is not waited for.
    for (unsigned taken = 0; taken <= view_.slots; taken += handle_consumer::lane_records_max)
        if (consumer_->drain_lane(lane, deliver)) break;
    consumer_->end_lane(lane, [pid](void* owner) { source_of(owner).end(token_end::lost, pid); });
}

void shared_handle::process_ended(unsigned lane, std::uint32_t pid) noexcept {
    producer& known = producers_[lane];
    stop(std::exchange(known.watch, ref()));
    // It may have attached, and died, since the lane was last looked at.
    const std::uint64_t now = consumer_->owner(lane);
    if ((process_of(now) == pid || now == known.owner) && consumer_->drop_owner(lane, now))
        known.owner = now >> 32 << 32;
    end_lane(lane, pid);
    known.gone = !known.asked;
    ringloop_handle_tell_version(&view_);  // another may have come
}

int shared_handle::watch(unsigned lane, long pid) noexcept {
    if (!usable()) return -1;
    look_at_owners();
    producer& of = producers_[lane];
    // The end of those before may not have been told yet; it must not end what is submitted next.
    if (const std::uint32_t before = process_of(of.owner); before != 0 && has_ended(before))
        process_ended(lane, before);
    const ref asked = std::exchange(of.asked, ref());
    stop(asked);
    if (asked && has_ended(of.asked_pid)) process_ended(lane, of.asked_pid);
    of.asked_pid = static_cast<std::uint32_t>(pid);
    of.gone = false;
    return begin_watch(lane, of.asked_pid, of.asked);
}

// 0, or -1 with an exception set.
int shared_handle::begin_watch(unsigned lane, std::uint32_t pid, ref& watch) noexcept {
    const int pidfd = open_pidfd(pid);
    if (pidfd == -ESRCH) {
        // Not if watch() named the process: the lane's number may be of another pid namespace.
        if (!producers_[lane].asked) process_ended(lane, pid);
        return 0;
    }
    if (pidfd < 0) {
        raise_errno(pidfd);
        return -1;
    }
    auto* work = new (std::nothrow) process_source(*this, lane, pid, pidfd);
    if (work == nullptr) close_descriptor(pidfd);
    ref made = ref::steal(new_awaitable(std::unique_ptr<source>(work)));
    if (!made) return -1;
    watch = ref::share(made.get());
    // A process that has ended already may end the watch within its start.
    if (reinterpret_cast<awaitable*>(made.get())->start() == 0) return 0;
    watch = ref();
    return -1;
}

void shared_handle::watch_over(unsigned lane, const awaitable& watch) noexcept {
    producer& of = producers_[lane];
    if (of.watch.get() == &watch.ob_base) of.watch = ref();
    if (of.asked.get() == &watch.ob_base) of.asked = ref();
}

void shared_handle::report_unwatched(unsigned lane, std::uint32_t pid) noexcept {
    const ref exception = take_exception();
    const ref text = ref::steal(PyUnicode_FromFormat(
        "process %u, the producer of lane %u of a shared handle, cannot be watched: its end will "
        "go unnoticed",
        pid, lane));
    const ref report = text ? ref::steal(Py_BuildValue("{s:O,s:O}", "message", text.get(),
                                                       "exception", exception.get()))
                            : ref();
    const ref answer = report ? ref::steal(PyObject_CallMethod(
                                    host_->loop(), "call_exception_handler", "O", report.get()))
                              : ref();
    if (!answer) PyErr_WriteUnraisable(nullptr);
}

// ---- the end

void shared_handle::close() noexcept {
    if (closed_) return;
    closed_ = true;
    if (forked()) return;
    consumer_->close();
    if (host_ == nullptr) return;
    // Its poll ends the rest, on the loop's thread.
    const std::uint64_t one = 1;
    while (::write(view_.wake_fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

void shared_handle::ended(token_end how, int error) noexcept {
    loop_ended_ = !closed_;
    closed_ = true;
    consumer_->close();
    for (unsigned lane = 0; lane < view_.lanes; ++lane) {
        stop(std::exchange(producers_[lane].watch, ref()));
        stop(std::exchange(producers_[lane].asked, ref()));
        consumer_->end_lane(lane, [how, error](void* owner) {
            source_of(owner).end(how, static_cast<std::uint32_t>(error));
        });
    }
    host_ = nullptr;
}

}  // namespace ringloop::bridge
