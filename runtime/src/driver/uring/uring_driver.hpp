// uring_driver: the body on one io_uring ring (COOP_TASKRUN, TASKRUN_FLAG, and movable between
// threads; where pinned DEFER_TASKRUN and SINGLE_ISSUER, and not movable).
//
// What an operation is to the kernel is a slot number with a generation, never an address: a
// completion for a slot that has moved on is counted and refused before memory is touched.
// Thread: the driver's. Wakes come through an eventfd whose multishot poll is always armed; its
// counter is never read, as each write is an edge. Workers that have finished a call write to it,
// too.
#pragma once

#include <vector>

#include "driver/file_pool.hpp"
#include "driver/kernel_driver.hpp"
#include "driver/uring/ring.hpp"

namespace ringloop::uring {

class uring_driver final : public kernel_driver {
  public:
    uring_driver(const driver_config& config, std::vector<std::string>& missing);
    ~uring_driver() override;

    void abandon_after_fork() noexcept override;
    int pollable_fd() const noexcept override { return ring_.io.ring_fd; }
    int register_memory(std::span<std::byte> memory) noexcept override;
    void unregister_memory(int number) noexcept override;

  protected:
    void body_submit(operation& op) noexcept override;
    void body_cancel(operation& op) noexcept override;
    void body_flush() noexcept override;
    void body_poll() noexcept override;
    wait_result body_wait(const wait_request& request) noexcept override;
    void body_release_buffer(buffer_id id) noexcept override;
    void body_adopt_thread() noexcept override;

  private:
    struct slot {
        operation* op;
        std::uint32_t generation;  // 31 bits, never 0
        std::uint32_t next_free;
    };
    struct news {
        std::size_t owners = 0;    // completions and wakes
        std::size_t internal = 0;  // of cancel requests
    };

    [[nodiscard]] io_uring_sqe* next_sqe() noexcept;
    [[nodiscard]] std::uint64_t take_slot(operation& op);
    void arm_wake_poll() noexcept;
    void cancel_user_data(std::uint64_t user_data) noexcept;
    void enter_to_submit() noexcept;
    news reap() noexcept;
    bool take(const io_uring_cqe& cqe) noexcept;
    int accept_now(operation& op) noexcept;
    void start_call(operation& op) noexcept;
    std::size_t drain_calls() noexcept;
    [[nodiscard]] bool pending() const noexcept { return ::io_uring_sq_ready(&ring_.io) != 0; }
    [[nodiscard]] unsigned kernel_asks() const noexcept;
    [[nodiscard]] bool spin(const wait_request& request, std::int64_t now) noexcept;
    [[nodiscard]] int sleep(const wait_request& request, std::int64_t now) noexcept;

    ring ring_;
    std::vector<slot> slots_;
    std::uint32_t free_slot_ = no_slot;
    bool wake_armed_ = false;
    bool has_table_ = false;        // for registered memory, at the ring
    std::uint64_t registered_ = 0;  // which places of it are taken
    std::size_t calls_ = 0;         // that the workers have
    file_pool workers_;             // for op_code::call alone
    static constexpr std::uint32_t no_slot = UINT32_MAX;
};

// Fills in the submission entry of `op`, but for its user_data.
void describe(const operation& op, io_uring_sqe& sqe) noexcept;

}  // namespace ringloop::uring
