// inbox: work handed to a loop's thread from any thread. The finished object is its own queue node,
// so posting cannot fail and copies nothing.
//
// Rules
//  1. push() is safe from any thread; take_all() belongs to the consumer.
//  2. A node is in at most one inbox; it stays alive until its run() was called, and may free
//     itself there.
//  3. push() publishes with release order; the producer then calls driver::wake(), whose full fence
//     pairs with the one in the consumer's announcement of sleep (a lost wake-up needs both to miss
//     each other's store).
//  4. `Atomic` is std::atomic, or what tests/model/ puts in its place to try all interleavings.
#pragma once

#include <atomic>

namespace ringloop {

struct posted {
    using function = void (*)(posted&) noexcept;
    explicit posted(function to_run = nullptr) noexcept : run(to_run) {}
    function run;
    posted* next = nullptr;
};

template <template <class> class Atomic>
class basic_inbox {
  public:
    void push(posted& node) noexcept {
        posted* head = head_.load(std::memory_order_relaxed);
        do node.next = head;
        while (!head_.compare_exchange_weak(head, &node, std::memory_order_release,
                                            std::memory_order_relaxed));
    }
    [[nodiscard]] bool empty() const noexcept {
        return head_.load(std::memory_order_acquire) == nullptr;
    }
    // Everything posted so far, oldest first; null if nothing was.
    [[nodiscard]] posted* take_all() noexcept {
        posted* newest = head_.exchange(nullptr, std::memory_order_acquire);
        posted* oldest = nullptr;
        while (newest != nullptr) {
            posted* next = newest->next;
            newest->next = oldest;
            oldest = newest;
            newest = next;
        }
        return oldest;
    }

  private:
    Atomic<posted*> head_{nullptr};
};

using inbox = basic_inbox<std::atomic>;

}  // namespace ringloop
