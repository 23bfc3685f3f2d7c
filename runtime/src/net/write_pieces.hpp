// write_pieces: gathered sending on a stream, all of it. Contract: byte_stream::write_all().
// Thread: the scheduler's.
#pragma once

#include <cstddef>
#include <span>

#include "ringloop/net/detail/stream_state.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net::detail {

// The stream's one writer, for as long as this lives. std::logic_error if there is one already.
class writing_turn {
  public:
    explicit writing_turn(stream_state& stream);
    ~writing_turn() { stream_.writing_ = false; }
    writing_turn(const writing_turn&) = delete;
    writing_turn& operator=(const writing_turn&) = delete;

  private:
    stream_state& stream_;
};

// For who has the turn.
[[nodiscard]] task<void> send_pieces(stream_state& stream,
                                     std::span<const std::span<const std::byte>> pieces);
[[nodiscard]] task<void> write_pieces(stream_state& stream,
                                      std::span<const std::span<const std::byte>> pieces);

}  // namespace ringloop::net::detail
