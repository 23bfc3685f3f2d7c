// handle_consumer: the loop's side of a shared handle (ringloop/handle.h, whose rules it cites):
// reserves slots, takes what producers stored, checks all of it. No Python here.
//
// What it knows of its slots lies in memory of its own. Of the shared memory it reads only records,
// the mask, `version` and the lanes' owners, and goes by none of them unchecked: whatever a
// producer writes there, the worst is that awaits of its own lane end with a wrong value.
//
// An owner is whoever waits for one token. It is handed out exactly once, by drain() or end_lane(),
// unless it was abandoned.
//
// Thread: one at a time, for everything here. Producers are on any other.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "ringloop/handle.h"

namespace ringloop::bridge {

class handle_consumer {
  public:
    struct counters {
        std::uint64_t completions = 0;  // that were handed to their owners
        std::uint64_t abandoned = 0;    // came when nobody waited any more
        std::uint64_t strays = 0;       // belonged to nothing that is reserved, or a second time
        std::uint64_t sleeps = 0;       // announced, also in vain: one write each at most
    };
    enum class reservation : std::uint8_t { made, full, no_memory };

    // `view` is placed over zeroed memory; both outlive this. Throws std::bad_alloc.
    explicit handle_consumer(const ringloop_handle& view)
        : view_(view), lanes_(std::make_unique<lane[]>(view.lanes)) {
        view_.header->magic = RINGLOOP_HANDLE_MAGIC;
        view_.header->abi_version = RINGLOOP_HANDLE_VERSION;
        view_.header->lanes = view.lanes;
        view_.header->slots = view.slots;
    }

    // Reserves a slot of that lane for `owner` until its completion is there.
    [[nodiscard]] reservation reserve(unsigned at, void* owner, ringloop_token& token) noexcept;
    // The owner does not wait any more; its slot stays reserved for the completion that may come.
    void abandon(ringloop_token token) noexcept;

    // Hands every record that is there to deliver(owner, record), in the order of each lane; of one
    // lane at most `lane_records_max`: false, some are left. deliver() may call everything here.
    template <typename Deliver>
    bool drain(Deliver&& deliver) noexcept {
        bool all = true;
        for (unsigned word = 0; word < 4; ++word) {
            if (__atomic_load_n(&view_.header->pending_mask[word], __ATOMIC_SEQ_CST) == 0) continue;
            std::uint64_t bits =
                __atomic_exchange_n(&view_.header->pending_mask[word], 0U, __ATOMIC_SEQ_CST);
            for (; bits != 0; bits &= bits - 1) {
                const unsigned at = word * 64 + static_cast<unsigned>(std::countr_zero(bits));
                if (at < view_.lanes) all = drain_lane(at, deliver) && all;
            }
        }
        return all;
    }
    template <typename Deliver>
    bool drain_lane(unsigned at, Deliver&& deliver) noexcept;
    // The lane's producer is gone: all its tokens end. release(owner) for each that waited; it must
    // not reserve.
    template <typename Release>
    void end_lane(unsigned at, Release&& release) noexcept;

    // Rule 3. False: there is something to do already.
    [[nodiscard]] bool announce_sleep() noexcept;
    void end_sleep() noexcept { __atomic_exchange_n(&view_.header->asleep, 0U, __ATOMIC_SEQ_CST); }
    // From here on producers are refused.
    void close() noexcept { __atomic_store_n(&view_.header->closed, 1U, __ATOMIC_RELEASE); }

    // Rule 5: whether owners may have changed since it was last asked.
    [[nodiscard]] bool version_changed() noexcept {
        return std::exchange(version_, version()) != version_;
    }
    [[nodiscard]] std::uint64_t version() const noexcept {
        return __atomic_load_n(&view_.header->version, __ATOMIC_SEQ_CST);
    }
    [[nodiscard]] std::uint64_t owner(unsigned at) const noexcept {
        return __atomic_load_n(&view_.heads[at].owner, __ATOMIC_SEQ_CST);
    }
    // Frees the lane of a process that has died. False: another has it already.
    bool drop_owner(unsigned at, std::uint64_t owner) noexcept {
        return __atomic_compare_exchange_n(&view_.heads[at].owner, &owner, owner >> 32 << 32, false,
                                           __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    }

    [[nodiscard]] const counters& counted() const noexcept { return counters_; }
    [[nodiscard]] unsigned reserved() const noexcept { return reserved_; }

    static constexpr unsigned lane_records_max = 1024;

  private:
    static constexpr unsigned batch_max = 32;
    struct slot {
        void* owner;  // null: abandoned
        std::uint32_t generation;
        std::uint32_t next_free;
        bool reserved;
    };
    struct lane {
        std::unique_ptr<slot[]> slots;
        std::uint64_t head = 0;        // rule 1: what counts; the shared one is a copy
        std::uint32_t touched = 0;     // slots that were ever used
        std::uint32_t first_free = 0;  // 1 + its number; 0: none
    };
    [[nodiscard]] unsigned copy(unsigned at, ringloop_record (&batch)[batch_max]) noexcept;
    [[nodiscard]] slot* find(unsigned at, ringloop_token token) noexcept;
    void free(unsigned at, slot& used) noexcept;
    [[nodiscard]] std::uint32_t& wanted(unsigned at, const slot& used) noexcept {
        return view_.wanted[std::size_t{at} * view_.slots +
                            static_cast<std::size_t>(&used - lanes_[at].slots.get())];
    }

    const ringloop_handle& view_;
    std::unique_ptr<lane[]> lanes_;
    counters counters_;
    std::uint64_t version_ = 0;
    unsigned reserved_ = 0;
};

inline handle_consumer::reservation handle_consumer::reserve(unsigned at, void* owner,
                                                             ringloop_token& token) noexcept {
    lane& in = lanes_[at];
    if (in.slots == nullptr) in.slots.reset(new (std::nothrow) slot[view_.slots]());
    if (in.slots == nullptr) return reservation::no_memory;
    if (in.first_free == 0 && in.touched == view_.slots) return reservation::full;
    const std::uint32_t number = in.first_free != 0 ? in.first_free - 1 : in.touched++;
    slot& made = in.slots[number];
    if (in.first_free != 0) in.first_free = made.next_free;
    made.owner = owner;
    made.reserved = true;
    if (++made.generation == 0) made.generation = 1;
    ++reserved_;
    token = std::uint64_t{made.generation} << 32 | std::uint64_t{at} << 16 | number;
    __atomic_store_n(&wanted(at, made), made.generation, __ATOMIC_RELAXED);
    return reservation::made;
}

inline void handle_consumer::abandon(ringloop_token token) noexcept {
    const unsigned at = ringloop_token_lane(token);
    slot* const left = find(at, token);
    if (left == nullptr) return;
    left->owner = nullptr;
    __atomic_store_n(&wanted(at, *left), 0U, __ATOMIC_RELAXED);
}

inline handle_consumer::slot* handle_consumer::find(unsigned at, ringloop_token token) noexcept {
    const std::uint32_t number = ringloop_token_slot(token);
    if (ringloop_token_lane(token) != at || number >= lanes_[at].touched) return nullptr;
    slot& found = lanes_[at].slots[number];
    return found.reserved && found.generation == ringloop_token_generation(token) ? &found
                                                                                  : nullptr;
}

inline void handle_consumer::free(unsigned at, slot& used) noexcept {
    lane& in = lanes_[at];
    used.reserved = false;
    used.next_free = in.first_free;
    in.first_free = static_cast<std::uint32_t>(&used - in.slots.get()) + 1;
    --reserved_;
}

// Rule 2, and rule 1: the places are free again before anybody hears of what was in them.
inline unsigned handle_consumer::copy(unsigned at, ringloop_record (&batch)[batch_max]) noexcept {
    lane& in = lanes_[at];
    ringloop_record* const records = view_.records + std::size_t{at} * view_.slots;
    unsigned count = 0;
    for (; count < batch_max; ++count) {
        const std::uint64_t position = in.head + count;
        ringloop_record& record = records[position & (view_.slots - 1)];
        if (__atomic_load_n(&record.sequence, __ATOMIC_SEQ_CST) != position + 1) break;
        std::memcpy(&batch[count].token, &record.token,
                    sizeof record - offsetof(ringloop_record, token));
        std::atomic_signal_fence(std::memory_order_seq_cst);  // read it once: it may change
        batch[count].size = std::min<std::uint16_t>(batch[count].size, RINGLOOP_HANDLE_BYTES_MAX);
    }
    if (count == 0) return 0;
    in.head += count;
    __atomic_store_n(&view_.heads[at].head, in.head, __ATOMIC_RELEASE);
    return count;
}

template <typename Deliver>
bool handle_consumer::drain_lane(unsigned at, Deliver&& deliver) noexcept {
    ringloop_record batch[batch_max];
    for (unsigned taken = 0; taken < lane_records_max;) {
        const unsigned count = copy(at, batch);
        if (count == 0) return true;
        taken += count;
        for (unsigned i = 0; i < count; ++i) {
            slot* const done = find(at, batch[i].token);
            if (done == nullptr) {
                ++counters_.strays;
                continue;
            }
            void* const owner = done->owner;
            free(at, *done);
            ++(owner != nullptr ? counters_.completions : counters_.abandoned);
            if (owner != nullptr) deliver(owner, const_cast<const ringloop_record&>(batch[i]));
        }
    }
    __atomic_fetch_or(&view_.header->pending_mask[at >> 6], std::uint64_t{1} << (at & 63),
                      __ATOMIC_SEQ_CST);
    return false;
}

// Positions go on where no record of the old producer can have been stored: one that it left half
// written, or whole behind that, is never taken for a new one.
template <typename Release>
void handle_consumer::end_lane(unsigned at, Release&& release) noexcept {
    lane& in = lanes_[at];
    in.head += view_.slots;
    __atomic_store_n(&view_.heads[at].tail, in.head, __ATOMIC_RELAXED);
    __atomic_store_n(&view_.heads[at].head, in.head, __ATOMIC_RELEASE);
    for (std::uint32_t number = 0; number < in.touched; ++number) {
        slot& each = in.slots[number];
        if (!each.reserved) continue;
        void* const owner = each.owner;
        __atomic_store_n(&wanted(at, each), 0U, __ATOMIC_RELAXED);
        free(at, each);
        if (owner != nullptr) release(owner);
    }
}

inline bool handle_consumer::announce_sleep() noexcept {
    __atomic_exchange_n(&view_.header->asleep, 1U, __ATOMIC_SEQ_CST);
    ++counters_.sleeps;
    bool idle = version() == version_;
    for (unsigned word = 0; word < 4; ++word)
        idle = idle && __atomic_load_n(&view_.header->pending_mask[word], __ATOMIC_SEQ_CST) == 0;
    if (!idle) end_sleep();
    return idle;
}

}  // namespace ringloop::bridge
