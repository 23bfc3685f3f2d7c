// epoll_driver: the body for machines without io_uring: readiness turned into completions.
//
// Each operation is tried when it is flushed, as the ring does, and parked with its descriptor if
// it would block. Descriptors are registered edge-triggered, so a parked multishot operation costs
// no further epoll_ctl; an edge runs the operations parked there, oldest first. What epoll refuses
// (files) goes to the file pool.
//
// Thread: the driver's, free to change between turns. Invariants
//  1. An operation that the body has is in `pending_`, parked in one watch, or in the file pool;
//     the low bits of its driver_word say which.
//  2. A parked operation has met EAGAIN since the last edge of its direction, or a parked one of
//     the same direction is ahead of it.
//  3. Registration is renewed (MOD, or ADD if the kernel does not know it) whenever the first
//     operation parks: a descriptor that was closed and reused behind our back is noticed there.
#pragma once

#include <sys/epoll.h>

#include <vector>

#include "driver/file_pool.hpp"
#include "driver/kernel_driver.hpp"

namespace ringloop::epoll {

class epoll_driver final : public kernel_driver {
  public:
    explicit epoll_driver(const driver_config& config);
    ~epoll_driver() override;

    void abandon_after_fork() noexcept override;
    int pollable_fd() const noexcept override { return epoll_fd_; }
    int close(int fd) noexcept override;
    void give_up(int fd) noexcept override { forget(fd); }

  protected:
    void body_submit(operation& op) noexcept override;
    void body_cancel(operation& op) noexcept override;
    void body_flush() noexcept override;
    void body_poll() noexcept override;
    wait_result body_wait(const wait_request& request) noexcept override;
    void body_release_buffer(buffer_id id) noexcept override;
    void body_adopt_thread() noexcept override {}
    bool body_moves_freely() const noexcept override { return true; }

  private:
    [[noreturn]] void fail_closed(const char* call) const;
    enum class stream : std::uint8_t { unknown, yes, no };
    struct watch {
        operation* first = nullptr;
        std::uint32_t generation = 0;
        std::uint32_t interest = 0;  // without EPOLLET
        bool registered = false;
        bool again = false;  // listed in again_
        stream kind = stream::unknown;
    };
    // What an attempt came to. The caller completes what has ended, once it is unlinked.
    struct outcome {
        enum class kind : std::uint8_t {
            ended,    // with `last`
            blocked,  // would block
            paused,   // could go on: had its share of this turn, or was interrupted
        };
        kind what;
        completion last{};
    };

    // ---- starting and parking
    void start(operation& op) noexcept;
    void start_file(operation& op) noexcept;
    void start_close(operation& op) noexcept;
    void park(operation& op) noexcept;
    [[nodiscard]] int renew(int fd, std::uint32_t interest) noexcept;
    [[nodiscard]] watch* watch_of(int fd) noexcept;  // null: no memory
    void unpark(operation& op) noexcept;
    void come_back(int fd) noexcept;
    void forget(int fd) noexcept;

    // ---- attempts (attempt.cpp): one operation, without blocking
    outcome attempt(operation& op, std::uint32_t events) noexcept;
    outcome attempt_accept(operation& op) noexcept;
    outcome attempt_connect(operation& op) noexcept;
    outcome attempt_receive(operation& op, std::uint32_t events) noexcept;
    outcome attempt_transfer(operation& op) noexcept;
    outcome attempt_poll(operation& op, std::uint32_t events) noexcept;
    [[nodiscard]] static outcome settled(ssize_t result) noexcept;
    [[nodiscard]] bool is_stream(int fd) noexcept;

    // ---- events
    void run_watch(int fd, std::uint32_t events) noexcept;
    void run_again() noexcept;
    void drain_files() noexcept;
    // Waits until `deadline_ns` (0: does not wait); a negated errno, or 1 if wake_fd_ was among the
    // events, else 0.
    int collect(std::int64_t deadline_ns) noexcept;
    int wait_for_events(std::int64_t deadline_ns, epoll_event* events, int count) noexcept;
    [[nodiscard]] bool spin(const wait_request& request, std::int64_t now) noexcept;

    int epoll_fd_ = -1;
    int timer_fd_ = -1;           // only where epoll_pwait2 is absent
    std::vector<watch> watches_;  // by descriptor
    std::vector<operation*> pending_;
    std::vector<int> again_;
    std::vector<buffer_id> free_buffers_;
    file_pool files_;
};

}  // namespace ringloop::epoll
