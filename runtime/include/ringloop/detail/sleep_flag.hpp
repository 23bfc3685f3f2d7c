// sleep_flag: whether the owner of a queue sleeps, and who has to wake it. The protocol alone: what
// wakes (an eventfd) is its user's.
//
// The owner announces its sleep, then looks for work, and sleeps only if there is none. A waker
// publishes its work, then calls claim_wake(); who gets true must signal, and nobody else does.
// 1 from the announcement until a waker or the owner ends it. Both sides access the flag by
// full-fence read-modify-writes only, which orders it with what the owner's look reads.
//
// `Atomic` is std::atomic, or what tests/model/ puts in its place to try all interleavings.
// Thread: claim_wake() from any, and safe in a signal handler; the others are the owner's.
#pragma once

#include <atomic>
#include <cstdint>

namespace ringloop::detail {

template <template <class> class Atomic>
class basic_sleep_flag {
  public:
    void announce() noexcept { asleep_.exchange(1, std::memory_order_seq_cst); }
    // True: a waker has ended the sleep already, and signals or will.
    bool end() noexcept { return asleep_.exchange(0, std::memory_order_seq_cst) == 0; }
    // True: the caller must signal.
    [[nodiscard]] bool claim_wake() noexcept {
        // Read by a read-modify-write: it is ordered, in the flag's own history, before or after
        // the owner's announcement. Before: the owner sees the caller's work. After: we see that
        // it sleeps.
        if (asleep_.fetch_or(0, std::memory_order_seq_cst) == 0) return false;
        return asleep_.exchange(0, std::memory_order_seq_cst) != 0;
    }

  private:
    Atomic<std::uint8_t> asleep_{0};
};

using sleep_flag = basic_sleep_flag<std::atomic>;

}  // namespace ringloop::detail
