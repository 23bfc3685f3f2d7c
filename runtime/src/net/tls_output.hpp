// tls_output: encrypted bytes on their way to the socket.
//
// They are sent in order by whoever adds some and, where the socket does not take them at once, by
// an operation in the background: a reader that has to answer the peer never waits for the writer
// or the network. Owns that operation; its bytes stay here until its completion. The destructor
// takes it back, what was not sent by then never is. Thread: the scheduler's.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ringloop/net/detail/stream_state.hpp"
#include "ringloop/sync/event.hpp"

namespace ringloop::net::detail {

class tls_output {
  public:
    explicit tls_output(stream_state& socket) noexcept;
    ~tls_output();
    tls_output(const tls_output&) = delete;
    tls_output& operator=(const tls_output&) = delete;

    // Queues; push() sends. After a failed send: drops.
    void add(std::span<const std::byte> bytes);
    void push() noexcept;
    // Bytes that the kernel has not taken yet.
    [[nodiscard]] std::size_t waiting() const noexcept {
        return queued_.size() + flying_.size() - sent_;
    }
    // Until nothing waits, or sending has failed: check(). Cancel: the bytes are sent all the same.
    [[nodiscard]] event::wait_await drained() noexcept { return drained_.wait(); }
    // Throws what sending has failed with.
    void check() const;
    // It has shut the socket down, for bytes are missing between those sent and any that follow.
    [[nodiscard]] bool ended_connection() const noexcept { return ended_connection_; }

  private:
    static constexpr std::size_t kept_max = 4096;  // bytes of memory that an idle session keeps

    void settle() noexcept;
    void submit() noexcept;
    void fail(int error_number) noexcept;
    static void arrive(operation& op, const completion& last) noexcept;

    stream_state& socket_;
    std::vector<std::byte> queued_;
    std::vector<std::byte> flying_;  // being sent, from sent_ on
    std::size_t sent_ = 0;
    int error_ = 0;
    bool ended_connection_ = false;
    bool closing_ = false;
    event drained_{true};
    owned_operation send_;
    iovec piece_{};
    msghdr message_{};
};

}  // namespace ringloop::net::detail
