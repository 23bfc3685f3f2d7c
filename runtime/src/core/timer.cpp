// The timer wheel: eight levels of 64 slots over ticks of 2^15 ns, so 2^63 ns in all.
//
// Thread: the scheduler's. Nothing is allocated after construction.
//
// A timer's level is the highest base-64 digit in which its tick differs from the wheel's current
// tick; its slot on that level is that digit. Therefore every timer of a level is earlier than
// every timer of the levels above, and the earliest slot is the first occupied one of the lowest
// occupied level. When the wheel reaches a slot above level 0 its timers move down; a slot of level
// 0 is sorted when it falls due and joins the due list, from which timers fire.
#include "ringloop/timer.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <utility>

namespace ringloop {
namespace {

constexpr int tick_bits = 15;
constexpr int digit_bits = 6;
constexpr int level_count = 8;
constexpr int slot_count = 1 << digit_bits;
constexpr std::int16_t due_slot = level_count * slot_count;
constexpr int exact_scan_max = 32;  // timers looked at to make a bound exact

std::uint64_t tick_of(std::int64_t time_ns) noexcept {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(time_ns, 0)) >> tick_bits;
}

int digit_of(std::uint64_t tick, int level) noexcept {
    return static_cast<int>(tick >> (level * digit_bits)) & (slot_count - 1);
}

bool before(const timer& a, const timer& b) noexcept {
    return a.deadline_ns != b.deadline_ns ? a.deadline_ns < b.deadline_ns : a.sequence < b.sequence;
}

// Lists linked by `next` only, both sorted.
timer* merge(timer* a, timer* b) noexcept {
    timer* head = nullptr;
    timer** end = &head;
    while (a != nullptr && b != nullptr) {
        timer*& first = before(*b, *a) ? b : a;
        *end = first;
        end = &first->next;
        first = first->next;
    }
    *end = a != nullptr ? a : b;
    return head;
}

// Bottom-up merge sort: run i holds 2^i timers or none.
timer* sort(timer* list) noexcept {
    std::array<timer*, 48> runs{};
    while (list != nullptr) {
        timer* run = list;
        list = list->next;
        run->next = nullptr;
        std::size_t i = 0;
        for (; runs[i] != nullptr; ++i) {
            run = merge(runs[i], run);
            runs[i] = nullptr;
        }
        runs[i] = run;
    }
    timer* sorted = nullptr;
    for (timer* run : runs) sorted = merge(run, sorted);
    return sorted;
}

}  // namespace

struct timer_wheel::state {
    std::array<timer*, due_slot + 1> slots{};
    std::array<std::uint64_t, level_count> occupied{};
    timer* due_last = nullptr;
    std::uint64_t tick = 0;
    std::uint64_t sequence = 0;
    mutable std::int64_t bound_ns = INT64_MAX;
    mutable bool bound_known = true;

    struct position {
        int level;
        int digit;
    };

    void place(timer& t) noexcept {
        const std::uint64_t when = std::max(tick_of(t.deadline_ns), tick);
        const std::uint64_t difference = when ^ tick;
        const int level =
            difference == 0 ? 0 : (static_cast<int>(std::bit_width(difference)) - 1) / digit_bits;
        const int digit = digit_of(when, level);
        t.slot = static_cast<std::int16_t>(level * slot_count + digit);
        timer*& head = slots[static_cast<std::size_t>(t.slot)];
        t.previous = nullptr;
        t.next = head;
        if (head != nullptr) head->previous = &t;
        head = &t;
        occupied[static_cast<std::size_t>(level)] |= std::uint64_t{1} << digit;
    }

    void remove(timer& t) noexcept {
        timer*& head = slots[static_cast<std::size_t>(t.slot)];
        if (t.previous != nullptr) {
            t.previous->next = t.next;
        } else {
            head = t.next;
        }
        if (t.next != nullptr) {
            t.next->previous = t.previous;
        } else if (t.slot == due_slot) {
            due_last = t.previous;
        }
        if (head == nullptr && t.slot != due_slot) {
            occupied[static_cast<std::size_t>(t.slot / slot_count)] &=
                ~(std::uint64_t{1} << (t.slot % slot_count));
            bound_known = false;
        }
        if (t.deadline_ns <= bound_ns) bound_known = false;
        t.slot = -1;
        t.previous = t.next = nullptr;
    }

    [[nodiscard]] bool earliest(position& found) const noexcept {
        for (int level = 0; level < level_count; ++level) {
            const std::uint64_t bits = occupied[static_cast<std::size_t>(level)];
            if (bits == 0) continue;
            found = {level, std::countr_zero(bits)};
            assert(found.digit >= digit_of(tick, level));
            return true;
        }
        return false;
    }

    [[nodiscard]] std::uint64_t start_of(position at) const noexcept {
        const int shift = at.level * digit_bits;
        const std::uint64_t above = tick >> shift >> digit_bits << digit_bits;
        return (above | static_cast<std::uint64_t>(at.digit)) << shift;
    }

    [[nodiscard]] timer* take(position at) noexcept {
        timer*& head = slots[static_cast<std::size_t>(at.level * slot_count + at.digit)];
        occupied[static_cast<std::size_t>(at.level)] &= ~(std::uint64_t{1} << at.digit);
        return std::exchange(head, nullptr);
    }

    // Timers of a due slot that are not due yet go back; the others are returned.
    [[nodiscard]] timer* split_due(timer* list, std::int64_t now_ns) noexcept {
        timer* due = nullptr;
        while (list != nullptr) {
            timer* t = list;
            list = list->next;
            if (t->deadline_ns <= now_ns) {
                t->next = due;
                due = t;
            } else {
                place(*t);
            }
        }
        return due;
    }

    void append_due(timer* sorted) noexcept {
        if (sorted == nullptr) return;
        timer*& head = slots[due_slot];
        timer* previous = nullptr;
        timer* changed = sorted;
        if (head == nullptr) {
            head = sorted;
        } else if (before(*due_last, *sorted)) {
            due_last->next = sorted;
            previous = due_last;
        } else {
            head = merge(head, sorted);
            changed = head;
        }
        for (timer* t = changed; t != nullptr; t = t->next) {
            t->previous = previous;
            t->slot = due_slot;
            previous = t;
        }
        due_last = previous;
    }

    void collect(std::int64_t now_ns) noexcept {
        const std::uint64_t now_tick = tick_of(now_ns);
        position at{};
        while (earliest(at)) {
            const std::uint64_t start = start_of(at);
            if (start > now_tick) break;
            tick = std::max(tick, start);
            timer* list = take(at);
            if (at.level == 0) {
                append_due(sort(split_due(list, now_ns)));
                if (start >= now_tick) break;
            } else {
                while (list != nullptr) place(*std::exchange(list, list->next));
            }
        }
        tick = std::max(tick, now_tick);
    }

    [[nodiscard]] std::int64_t find_bound() const noexcept {
        std::int64_t least = slots[due_slot] != nullptr ? slots[due_slot]->deadline_ns : INT64_MAX;
        position at{};
        if (!earliest(at)) return least;
        int seen = 0;
        const timer* t = slots[static_cast<std::size_t>(at.level * slot_count + at.digit)];
        for (; t != nullptr && seen < exact_scan_max; t = t->next, ++seen)
            least = std::min(least, t->deadline_ns);
        if (t == nullptr) return least;
        return std::min(least, static_cast<std::int64_t>(start_of(at) << tick_bits));
    }
};

timer_wheel::timer_wheel() : state_(std::make_unique<state>()) {}

timer_wheel::~timer_wheel() {
    assert(size_ == 0 && "a timer outlives its wheel: cancel it first");
}

void timer_wheel::insert(timer& t, std::int64_t deadline_ns, std::int64_t now_ns) noexcept {
    assert(!t.armed() && "the timer is armed already: cancel it first");
    state& s = *state_;
    if (size_ == 0) {
        s.tick = std::max(s.tick, tick_of(now_ns));
        s.bound_ns = INT64_MAX;
        s.bound_known = true;
    }
    t.deadline_ns = deadline_ns;
    t.sequence = s.sequence++;
    s.place(t);
    s.bound_ns = std::min(s.bound_ns, deadline_ns);
    ++size_;
}

void timer_wheel::cancel(timer& t) noexcept {
    if (!t.armed()) return;
    state_->remove(t);
    --size_;
}

std::size_t timer_wheel::expire(std::int64_t now_ns, std::size_t max) noexcept {
    if (size_ == 0) return 0;
    state& s = *state_;
    s.collect(now_ns);
    s.bound_known = false;
    std::size_t fired = 0;
    while (fired < max) {
        timer* t = s.slots[due_slot];
        if (t == nullptr) break;
        s.remove(*t);
        --size_;
        ++fired;
        t->on_fire(*t);
    }
    return fired;
}

std::int64_t timer_wheel::next_deadline_ns() const noexcept {
    const state& s = *state_;
    if (!s.bound_known) {
        s.bound_ns = s.find_bound();
        s.bound_known = true;
    }
    return s.bound_ns;
}

}  // namespace ringloop
