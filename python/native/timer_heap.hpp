// timer_heap: the loop's timers as a 4-ary heap that knows each handle's place, so that cancel
// removes at once.
//
// Order: deadline, then the order of insertion. Owns one reference to each handle. GIL held
// throughout. (Measured against the runtime's wheel on 100,000 timers, half cancelled:
// DECISIONS.md, timers.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "handle.hpp"

namespace ringloop::python {

class timer_heap {
  public:
    [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
    [[nodiscard]] std::int64_t first_deadline_ns() const noexcept {
        return entries_[0].deadline_ns;
    }
    [[nodiscard]] handle_object* at(std::size_t index) const noexcept {
        return entries_[index].handle;
    }

    // Takes over the reference. False: no memory, the reference stays the caller's.
    [[nodiscard]] bool push(handle_object* handle) noexcept {
        handle->sequence = next_sequence_++;
        try {
            entries_.push_back({handle->deadline_ns, handle});
        } catch (const std::bad_alloc&) {
            return false;
        }
        rise(entries_.size() - 1);
        return true;
    }
    // Removes the first, gives its reference to the caller; not empty.
    [[nodiscard]] handle_object* pop() noexcept { return remove(0); }
    // Removes one that is in the heap, gives its reference to the caller.
    handle_object* remove(std::size_t index) noexcept {
        handle_object* removed = entries_[index].handle;
        removed->heap_index = no_heap_index;
        const entry last = entries_.back();
        entries_.pop_back();
        if (index < entries_.size()) {
            place(index, last);
            if (index > 0 && before(last, entries_[parent(index)])) {
                rise(index);
            } else {
                sink(index);
            }
        }
        return removed;
    }

  private:
    struct entry {
        std::int64_t deadline_ns;
        handle_object* handle;
    };

    static std::size_t parent(std::size_t index) noexcept { return (index - 1) / 4; }
    static bool before(const entry& a, const entry& b) noexcept {
        if (a.deadline_ns != b.deadline_ns) return a.deadline_ns < b.deadline_ns;
        return a.handle->sequence < b.handle->sequence;
    }
    void place(std::size_t index, const entry& e) noexcept {
        entries_[index] = e;
        e.handle->heap_index = static_cast<std::uint32_t>(index);
    }
    void rise(std::size_t index) noexcept {
        const entry moving = entries_[index];
        while (index > 0 && before(moving, entries_[parent(index)])) {
            place(index, entries_[parent(index)]);
            index = parent(index);
        }
        place(index, moving);
    }
    void sink(std::size_t index) noexcept {
        const entry moving = entries_[index];
        const std::size_t count = entries_.size();
        for (std::size_t child = 4 * index + 1; child < count; child = 4 * index + 1) {
            std::size_t least = child;
            const std::size_t end = child + 4 < count ? child + 4 : count;
            for (std::size_t i = child + 1; i < end; ++i)
                if (before(entries_[i], entries_[least])) least = i;
            if (!before(entries_[least], moving)) break;
            place(index, entries_[least]);
            index = least;
        }
        place(index, moving);
    }

    std::vector<entry> entries_;
    std::uint64_t next_sequence_ = 0;
};

}  // namespace ringloop::python
