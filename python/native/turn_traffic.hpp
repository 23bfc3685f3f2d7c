// turn_traffic: whether the connections of a loop receive much in its turns.
//
// What is received for all of them first, then copied, then sent, has left the processor's cache
// when it is needed again. In heavy turns transports therefore go on one by one: they read when it
// is their turn (a poll and a read, instead of the kernel's receives) and send at once. Thread: the
// loop's.
#pragma once

#include <cstddef>

namespace ringloop::python {

class turn_traffic {
  public:
    void begin_turn() noexcept {
        bytes_ = 0;
        if (heavy_turns_ > 0) --heavy_turns_;
    }
    void add(std::size_t bytes) noexcept {
        bytes_ += bytes;
        if (bytes_ > heavy_bytes) heavy_turns_ = turns_after;
    }
    // From the turn that received much until some turns after the last such one.
    [[nodiscard]] bool heavy() const noexcept { return heavy_turns_ > 0; }

  private:
    // A dozen messages of 16 KiB: with their copies on the way a good part of a megabyte.
    static constexpr std::size_t heavy_bytes = 192 * 1024;
    static constexpr int turns_after = 16;
    std::size_t bytes_ = 0;  // in this turn
    int heavy_turns_ = 0;
};

}  // namespace ringloop::python
