// byte_stream: what a connected TCP socket and a connected Unix socket have in common.
//
// Owns the descriptor and, while one is armed, the receive on it. Move-only; the destructor takes
// back what is in flight and closes, so that the peer sees the end at once. Thread: that of the
// scheduler it was made on. At most one reader and one writer at a time (std::logic_error).
//
// A loop names what it awaits, `while (auto chunk = co_await stream.receive())`: g++ 12 miscompiles
// an await that is the whole of a loop's condition.
//
// Errors: ringloop::error (ECONNRESET, EPIPE …). Cancel: see each member.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "ringloop/buffer.hpp"
#include "ringloop/net/detail/stream_state.hpp"
#include "ringloop/task.hpp"

namespace ringloop::fs {
class file;
}

namespace ringloop::net {

enum class direction : int { receive = SHUT_RD, send = SHUT_WR, both = SHUT_RDWR };

class byte_stream {
  public:
    byte_stream() noexcept = default;

    // What arrived, as a lease; an empty one at the end of the stream. A receive stays armed in the
    // kernel between calls; nothing is held while the connection is idle.
    // Cancel loses nothing: what arrives meanwhile comes with the next call.
    [[nodiscard]] detail::receive_await receive() { return detail::receive_await(state()); }
    // Into the caller's memory: bytes read, at least one; 0 at the end of the stream (or for an
    // empty span). Cancel loses nothing: bytes that were faster are returned.
    [[nodiscard]] detail::read_await read_some(std::span<std::byte> into) {
        return detail::read_await(state(), into);
    }
    // Sends all of it; `bytes` stay alive and unchanged until the await ends. Sent at once if the
    // socket takes it. Cancel: what was handed over is sent, how much that is gets lost: close the
    // stream.
    [[nodiscard]] detail::write_await write_all(std::span<const std::byte> bytes) {
        return detail::write_await(state(), bytes, true);
    }
    [[nodiscard]] detail::write_await write_all(std::string_view text) {
        return write_all(std::as_bytes(std::span(text)));
    }
    // All of several pieces, in their order, as one message to the kernel (writev): a head and a
    // body need no copy to leave together. The list and its bytes stay alive until the await ends.
    // Cancel: as above.
    [[nodiscard]] task<void> write_all(std::span<const std::span<const std::byte>> pieces);
    // Sends `size` bytes of a file from `offset` on. From 256 KiB the kernel moves them by itself
    // where it can (sendfile), asked by a worker: this thread waits for no disk. Counts as a write;
    // stream and file live until the await ends. Returns how many: fewer only where the file ends.
    // Throws std::invalid_argument for a negative offset, std::logic_error for a closed file.
    // Cancel: as of write_all().
    [[nodiscard]] task<std::uint64_t> send_file(const fs::file& from, std::int64_t offset,
                                                std::uint64_t size);
    // Sends a part, at least one byte; returns how many. Cancel loses nothing: a count that was
    // faster is returned.
    [[nodiscard]] detail::write_await write_some(std::span<const std::byte> bytes) {
        return detail::write_await(state(), bytes, false);
    }

    // The same with an error_code that gets what failed, where the others throw ringloop::error:
    // receive() then returns an empty lease, read_some() 0, the writes what was sent before.
    [[nodiscard]] detail::receive_await receive(std::error_code& failure) {
        return detail::receive_await(state(), &failure);
    }
    [[nodiscard]] detail::read_await read_some(std::span<std::byte> into,
                                               std::error_code& failure) {
        return {state(), into, &failure};
    }
    [[nodiscard]] detail::write_await write_all(std::span<const std::byte> bytes,
                                                std::error_code& failure) {
        return {state(), bytes, true, &failure};
    }
    [[nodiscard]] detail::write_await write_all(std::string_view text, std::error_code& failure) {
        return write_all(std::as_bytes(std::span(text)), failure);
    }
    [[nodiscard]] detail::write_await write_some(std::span<const std::byte> bytes,
                                                 std::error_code& failure) {
        return {state(), bytes, false, &failure};
    }

    // `failure` outlives the await.
    [[nodiscard]] task<void> write_all(std::span<const std::span<const std::byte>> pieces,
                                       std::error_code& failure);

    // Immediate.
    void shutdown(direction which);
    // Takes back what is in flight and closes. A reader or writer that waits must have ended.
    void close() noexcept { state_.reset(); }

    // Gives the socket up, open: to hand it to a stream on another scheduler (scheduler_pool.hpp).
    // std::logic_error while a read or a write is under way, and if receive() has read ahead.
    [[nodiscard]] int release();

    [[nodiscard]] explicit operator bool() const noexcept { return native_handle() >= 0; }
    [[nodiscard]] int native_handle() const noexcept { return state_ ? state_->socket() : -1; }

  protected:
    // Takes over a connected, non-blocking socket.
    byte_stream(scheduler& home, int socket);
    byte_stream(byte_stream&&) noexcept = default;
    byte_stream& operator=(byte_stream&&) noexcept = default;
    ~byte_stream() = default;
    [[nodiscard]] detail::stream_state& state() const;

  private:
    ringloop::detail::resident_ptr<detail::stream_state> state_;
};

}  // namespace ringloop::net
