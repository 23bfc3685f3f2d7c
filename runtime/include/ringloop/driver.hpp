// driver: the only door to the kernel. Three bodies: uring, epoll (readiness turned into
// completions, files on a bounded thread pool) and fake (seeded faults, virtual clock; tests only).
//
// Thread: everything except wake() belongs to the thread that runs the driver. It may move to
// another thread between two turns (adopt_thread()). No member needs Python; wait() is meant to be
// called without the GIL.
//
// One turn of its owner:
//     d.wait(…);                       or poll(); what was queued since the last turn goes with it
//     d.dispatch(phase::native, n);    completions of native operations
//     d.dispatch(phase::host, n);      completions that need the host's lock (the GIL)
//
// What the base class does for every body, so that owners need not:
//  - a multishot operation that the kernel ended early (completion queue overflow, no cause) is
//    re-armed; its owner sees the last completion only for an error, a cancel or the end of a
//    stream;
//  - a receive that found the pool empty (ENOBUFS) waits in a queue; at most `rearm_max` are
//    re-armed a turn, oldest first, and wait() does not sleep while some are left and a buffer is
//    free;
//  - an accept, receive, receive_into or poll that the kernel cancelled unasked (the thread that
//    armed it has exited) is re-armed on the running thread;
//  - an operation interrupted before it did anything (EINTR) is started again;
//  - a buffer that comes with an error or the end of a stream goes straight back to the pool;
//  - operations in flight are listed and counted, buffers given out are counted.
#pragma once

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "ringloop/capabilities.hpp"
#include "ringloop/detail/sleep_flag.hpp"
#include "ringloop/operation.hpp"

namespace ringloop {

inline constexpr std::int64_t no_deadline = INT64_MAX;

struct driver_config {
    backend choice =
        backend::automatic;             // an explicit choice never falls back: make_driver() throws
    unsigned submission_entries = 256;  // stepped down where RLIMIT_MEMLOCK is small
    unsigned completion_entries = 4096;
    unsigned buffer_count = 64;     // power of two
    unsigned buffer_size = 65536;   // bytes
    unsigned file_threads_max = 4;  // for calls; in the epoll body for files, too
    // The driver stays on the thread that makes it: the ring runs its task work in our waits alone
    // (DEFER_TASKRUN), which is cheaper. adopt_thread() then refuses any other thread.
    bool pinned = false;
    // Test hook: io_uring opcodes (by number) to treat as absent, as on an older kernel.
    std::vector<unsigned> masked_opcodes = {};
};

struct wait_request {
    std::int64_t deadline_ns = no_deadline;  // absolute, on driver::now_ns()'s clock
    std::int64_t spin_ns = 0;                // look at memory this long before sleeping
    // Asked after the driver has announced that it sleeps: true means that work arrived meanwhile,
    // do not sleep.
    bool (*has_work)(void* context) = nullptr;
    void* context = nullptr;
};

enum class wait_result : std::uint8_t {
    ready,        // something completed, wake() was called, or has_work said so
    timed_out,    // the deadline passed
    interrupted,  // a signal came (EINTR): the caller lets its signal handlers run
};

struct descriptor_facts {
    bool positional = false;  // a regular file or a block device: has offsets and a size
    bool directory = false;
    std::int64_t size = 0;  // bytes; of a positional one
};

enum class phase : std::uint8_t { native, host };

struct driver_counters {
    std::uint64_t submitted = 0;    // operations handed to the kernel
    std::uint64_t completions = 0;  // delivered to owners
    std::uint64_t enters = 0;       // system calls made to submit or to wait
    std::uint64_t sleeps = 0;       // announced to those who wake: each is written to at most once
    std::uint64_t wake_writes = 0;  // eventfd writes by wake()
    std::uint64_t overflows = 0;    // completion queue overflows seen
    std::uint64_t starved = 0;      // receives that found the pool empty
    std::uint64_t stale = 0;        // completions for nobody, refused
};

class driver {
  public:
    static constexpr unsigned rearm_max = 32;

    virtual ~driver();  // asserts that nothing is in flight: owners retire their operations first
    driver(const driver&) = delete;
    driver& operator=(const driver&) = delete;

    // ---- operations
    // Takes a prepared operation. Never fails: what the kernel refuses becomes the operation's
    // completion. Nothing reaches the kernel before flush(), poll(), wait() or a full submission
    // queue.
    void submit(operation& op) noexcept;
    // Asks the kernel to end it. The last completion still comes (-ECANCELED, or a result that was
    // faster). Idempotent. No effect on an operation that is not in flight.
    void cancel(operation& op) noexcept;
    // cancel() and collect: returns once the last completion of `op` has been delivered to its
    // handler, whatever its phase (a host's lock, where there is one, must be held). Other
    // operations' completions met on the way stay queued.
    void retire(operation& op) noexcept;
    // Retires everything in flight: the end of an owner's life. Handlers must not submit again.
    void retire_all() noexcept {
        while (first_ != nullptr) retire(*first_);
    }
    // Submits what is queued, without waiting.
    void flush() noexcept;

    // ---- the turn
    // Never blocks. Enters the kernel only if something is queued or the kernel asks for it.
    void poll() noexcept;
    // Blocks until a completion, wake(), a signal or the deadline. Does not block while completions
    // are undelivered.
    wait_result wait(const wait_request& request) noexcept;
    // Delivers at most `max` queued completions of that phase; returns how many were delivered.
    std::size_t dispatch(phase which, std::size_t max = SIZE_MAX) noexcept;
    [[nodiscard]] std::size_t undelivered(phase which) const noexcept {
        return queue(which).live();
    }

    // Any thread, and safe in a signal handler: at most one eventfd write per sleep. It is not
    // remembered: a driver that is not asleep finds the work by wait_request::has_work.
    void wake() noexcept;

    // Between turns, after the owner's thread changed: operations in flight (accept, receive, poll,
    // the driver's own wake) are moved to the calling thread. Returns false, changing nothing, if
    // one in flight cannot move (send, file …).
    [[nodiscard]] bool adopt_thread() noexcept;

    // In a forked child: closes the descriptors and forgets what was in flight, without touching
    // the parent's ring.
    virtual void abandon_after_fork() noexcept = 0;
    // The same where a poller of the child's still has pollable_fd(): a descriptor that never
    // becomes readable has its number from here on, until this is destroyed.
    virtual void abandon_to_poller_after_fork() noexcept { abandon_after_fork(); }

    // ---- the receive pool
    [[nodiscard]] std::byte* buffer(buffer_id id) const noexcept {
        return pool_memory_ + std::size_t{id} * pool_buffer_size_;
    }
    [[nodiscard]] std::size_t buffer_size() const noexcept { return pool_buffer_size_; }
    void release_buffer(buffer_id id) noexcept;
    [[nodiscard]] unsigned leased_buffers() const noexcept { return leased_; }

    // ---- memory for files, which the kernel keeps at hand
    static constexpr int registered_max = 64;
    // From here on reads and writes of files may name it: operation::registered. Returns its
    // number, or a negated errno: EOPNOTSUPP where the body has no such thing, ENOMEM where the
    // user may pin no more (RLIMIT_MEMLOCK), ENOSPC above `registered_max`. At most 1 GiB each.
    virtual int register_memory(std::span<std::byte>) noexcept { return -EOPNOTSUPP; }
    // Operations in flight that name it go on; the memory stays until they have ended.
    virtual void unregister_memory(int) noexcept {}

    // ---- immediate verbs: one non-blocking system call each. They return the call's result or a
    // negated errno.
    virtual ssize_t try_send(int fd, std::span<const iovec> pieces) noexcept = 0;
    virtual ssize_t try_receive(int fd, std::span<const iovec> pieces) noexcept = 0;
    // Datagrams, in order: how many were moved, or the negated errno of the first. An error of a
    // later one shows at the next call. Each message moved has its msg_len filled in, a received
    // one also its msg_namelen, msg_controllen and msg_flags.
    virtual int try_recvmmsg(int fd, std::span<mmsghdr> messages) noexcept = 0;
    virtual int try_sendmmsg(int fd, std::span<mmsghdr> messages) noexcept = 0;
    virtual ssize_t try_pread(int fd, void* data, std::size_t size,
                              std::int64_t offset) noexcept = 0;  // RWF_NOWAIT
    // To a pipe, whatever its own mode. -EPIPE comes without a SIGPIPE.
    virtual ssize_t try_write(int fd, std::span<const iovec> pieces) noexcept = 0;
    virtual int close(
        int fd) noexcept = 0;  // retire the operations on it first: they hold the file open

    // For a descriptor that stays open and goes on elsewhere: nothing here knows it any more.
    // Retire the operations on it first.
    virtual void give_up(int) noexcept {}

    // What an open descriptor is: 0 or a negated errno.
    virtual int inspect(int fd, descriptor_facts& facts) noexcept = 0;

    // ---- cold verbs: set-up of sockets and pipes. Same return convention.
    virtual int make_socket(int domain, int type,
                            int protocol) noexcept = 0;  // non-blocking, close-on-exec
    // ends[0] reads, ends[1] writes; both blocking, for whoever else gets one, and close-on-exec.
    virtual int make_pipe(int (&ends)[2]) noexcept = 0;
    virtual int bind(int fd, const sockaddr* address, socklen_t size) noexcept = 0;
    virtual int listen(int fd, int backlog) noexcept = 0;
    virtual int shutdown(int fd, int how) noexcept = 0;
    virtual int set_option(int fd, int level, int name, const void* value,
                           socklen_t size) noexcept = 0;
    virtual int get_option(int fd, int level, int name, void* value, socklen_t* size) noexcept = 0;
    virtual int local_address(int fd, sockaddr* address, socklen_t* size) noexcept = 0;
    virtual int peer_address(int fd, sockaddr* address, socklen_t* size) noexcept = 0;

    // Monotonic clock, nanoseconds (virtual in the fake body).
    [[nodiscard]] virtual std::int64_t now_ns() const noexcept = 0;
    // Readable by another poller (epoll, select, another ring) when poll() would find something:
    // for guests of a foreign loop.
    [[nodiscard]] virtual int pollable_fd() const noexcept = 0;
    // For a guest, before its thread sleeps in the foreign poller: submits what is queued, and from
    // here to unpark() a wake() makes pollable_fd() readable. False: there is work already (queued
    // here, or has_work() said so), do not sleep.
    [[nodiscard]] bool park(const wait_request& request) noexcept;
    void unpark() noexcept { end_sleep(); }

    [[nodiscard]] const capabilities& what() const noexcept { return capabilities_; }
    [[nodiscard]] const driver_counters& counters() const noexcept { return counters_; }
    [[nodiscard]] std::size_t in_flight() const noexcept { return in_flight_; }
    // The newest of them, or null; the others follow by operation::next.
    [[nodiscard]] const operation* newest() const noexcept { return first_; }
    [[nodiscard]] operation* newest() noexcept { return first_; }

  protected:
    driver();

    // ---- what a body implements
    virtual void body_submit(operation& op) noexcept = 0;  // may call complete() at once
    virtual void body_cancel(operation& op) noexcept = 0;
    virtual void body_flush() noexcept = 0;
    virtual void body_poll() noexcept = 0;
    // Blocks unless something completed; publishes sleeping through announce_sleep()/end_sleep().
    virtual wait_result body_wait(const wait_request& request) noexcept = 0;
    virtual void body_release_buffer(buffer_id id) noexcept = 0;
    virtual void body_signal() noexcept = 0;  // any thread: make a sleeping body_wait() return
    virtual void body_adopt_thread() noexcept = 0;  // the body's own wake operation
    // Nothing that this body has in flight is tied to a thread.
    virtual bool body_moves_freely() const noexcept { return false; }

    // ---- what a body calls
    // Queues a completion for its owner and keeps the books (state, list, re-arming, starvation).
    void complete(operation& op, const completion& result) noexcept;
    // asleep = true, full fence, then has_work(): false means "do not sleep".
    [[nodiscard]] bool announce_sleep(const wait_request& request) noexcept;
    // Counts the wake that ended it, if one did.
    void end_sleep() noexcept;
    // For the destructor after abandon_after_fork(): nothing is in flight any more.
    void forget_all() noexcept;
    [[nodiscard]] std::size_t undelivered_total() const noexcept {
        return queues_[0].live() + queues_[1].live();
    }
    // Something waits to be armed, and can be: do not sleep, return to the turn.
    [[nodiscard]] bool rearm_due() const noexcept {
        return !ended_.empty() || (!starved_.empty() && leased_ < capabilities_.buffer_count);
    }

    struct queued {
        operation* op;  // null: purged
        completion result;
    };
    // Power-of-two ring, grows, never shrinks.
    class completion_queue {
      public:
        [[nodiscard]] std::size_t size() const noexcept { return tail_ - head_; }
        [[nodiscard]] std::size_t live() const noexcept { return size() - holes_; }
        void reserve(std::size_t count) {
            while (capacity_ < count) grow();
        }
        void push(const queued& entry) {
            if (size() == capacity_) grow();
            slots_[tail_++ & (capacity_ - 1)] = entry;
        }
        queued pop() noexcept {
            const queued entry = slots_[head_++ & (capacity_ - 1)];
            if (entry.op == nullptr) --holes_;
            return entry;
        }
        queued purge(std::size_t index) noexcept;  // leaves a hole there
        [[nodiscard]] queued& at(std::size_t index) noexcept {
            return slots_[(head_ + index) & (capacity_ - 1)];
        }

      private:
        void grow();
        std::unique_ptr<queued[]> slots_;
        std::size_t capacity_ = 0;
        std::size_t head_ = 0;
        std::size_t tail_ = 0;
        std::size_t holes_ = 0;
    };
    [[nodiscard]] completion_queue& queue(phase which) noexcept {
        return queues_[static_cast<int>(which)];
    }
    [[nodiscard]] const completion_queue& queue(phase which) const noexcept {
        return queues_[static_cast<int>(which)];
    }

    std::byte* pool_memory_ = nullptr;
    std::size_t pool_buffer_size_ = 0;
    unsigned leased_ = 0;
    capabilities capabilities_;
    driver_counters counters_;
    operation* first_ = nullptr;  // in flight, newest first
    bool pinned_ = false;         // see driver_config::pinned

  private:
    void make_room() noexcept;
    void reserve(std::size_t operations);
    void link(operation& op) noexcept;
    void unlink(operation& op) noexcept;
    void arm(operation& op) noexcept;
    void end(operation& op, completion last) noexcept;
    void rearm() noexcept;
    void rearm_first(std::vector<operation*>& waiting, std::size_t max) noexcept;
    void push(operation& op, const completion& result) noexcept {
        queue(op.host ? phase::host : phase::native).push({&op, result});
    }
    bool deliver(const queued& entry) noexcept;
    [[nodiscard]] bool deliver_queued(operation& op) noexcept;

    completion_queue queues_[2];
    std::vector<operation*> starved_;  // wait for a buffer
    std::vector<operation*> ended_;    // ended without a cause
    std::size_t in_flight_ = 0;
    std::size_t room_ = 0;  // there is room for the ends of twice as many operations
    std::size_t moving_ = 0;  // operations on their way to this thread
    std::thread::id thread_;  // that armed what is in flight
    bool announced_ = false;  // sleep_ was announced and end_sleep() not yet called
    detail::sleep_flag sleep_;
};

// The clock of the drivers over a kernel, for who has no driver at hand. Any thread.
[[nodiscard]] std::int64_t monotonic_ns() noexcept;

// Probes what `config` asks for and makes the driver. Throws std::system_error (what: which call,
// and what to do about it) if an explicit choice cannot be met; with `automatic` falls back from
// uring to epoll.
[[nodiscard]] std::unique_ptr<driver> make_driver(const driver_config& config = {});

}  // namespace ringloop
