// byte_stream::send_file: sendfile(2) on a worker, a wait where the socket has no room, and a copy
// through memory where the kernel does not move these bytes by itself.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <stdexcept>
#include <vector>

#include "fs/on_worker.hpp"
#include "net/write_pieces.hpp"
#include "ringloop/error.hpp"
#include "ringloop/fs/blocking.hpp"
#include "ringloop/fs/file.hpp"
#include "ringloop/net/byte_stream.hpp"
#include "ringloop/net/ready.hpp"

namespace ringloop::net {
namespace {

using detail::stream_state;

constexpr std::uint64_t copied = 64 * 1024;      // at once, through memory
constexpr std::uint64_t moved_min = 256 * 1024;  // below, a worker's turn costs more than a copy

// A count, or a negated errno, which is not thrown: some have an answer.
task<std::int32_t> move_some(int socket, int file, std::int64_t offset, std::uint64_t size) {
    std::int32_t moved = 0;
    co_await fs::on_worker("send a file", [&](const std::atomic<bool>&) noexcept {
        moved = fs::send_part(file, socket, offset, size);
        return 0;
    });
    co_return moved;
}

task<std::uint64_t> copy(stream_state& stream, const fs::file& from, std::int64_t offset,
                         std::uint64_t size) {
    std::vector<std::byte> memory(static_cast<std::size_t>(std::min(size, copied)));
    std::uint64_t done = 0;
    while (done < size) {
        const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(size - done, copied));
        const std::size_t count = co_await from.read_at(std::span(memory).first(most),
                                                        offset + static_cast<std::int64_t>(done));
        if (count == 0) break;
        const std::array<std::span<const std::byte>, 1> piece{std::span(memory).first(count)};
        co_await detail::send_pieces(stream, piece);
        done += count;
    }
    co_return done;
}

task<std::uint64_t> send(stream_state& stream, const fs::file& from, std::int64_t offset,
                         std::uint64_t size) {
    if (offset < 0) throw std::invalid_argument("ringloop: the offset must not be negative");
    if (!from) throw std::logic_error("ringloop: the file to send is closed");
    const detail::writing_turn mine(stream);
    std::uint64_t done = 0;
    bool moves = stream.io().what().chosen != backend::fake;
    while (size >= moved_min && done < size && moves) {
        const std::int32_t count =
            co_await move_some(stream.socket(), from.native_handle(),
                               offset + static_cast<std::int64_t>(done), size - done);
        if (count == 0) co_return done;
        if (count > 0) {
            done += static_cast<std::uint64_t>(count);
        } else if (count == -EAGAIN) {
            co_await ready(stream.socket(), POLLOUT);
        } else if (count == -EINVAL || count == -ENOSYS || count == -EOPNOTSUPP) {
            moves = false;  // not of such a file
        } else {
            ringloop::detail::throw_error(-count, "send a file");
        }
    }
    if (done < size)
        done += co_await copy(stream, from, offset + static_cast<std::int64_t>(done), size - done);
    co_return done;
}

}  // namespace

task<std::uint64_t> byte_stream::send_file(const fs::file& from, std::int64_t offset,
                                           std::uint64_t size) {
    return send(state(), from, offset, size);
}

}  // namespace ringloop::net
