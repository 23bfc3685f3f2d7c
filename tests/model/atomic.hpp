// model::atomic: what stands in for std::atomic, where the runtime lets it be chosen.
#pragma once

#include <atomic>
#include <cstring>

#include "model/explorer.hpp"

namespace model {

[[nodiscard]] inline order order_of(std::memory_order how) {
    switch (how) {
        case std::memory_order_relaxed:
            return order::relaxed;
        case std::memory_order_release:
            return order::release;
        case std::memory_order_acq_rel:
            return order::acq_rel;
        case std::memory_order_seq_cst:
            return order::seq_cst;
        default:
            return order::acquire;
    }
}

template <class T>
class atomic {
    static_assert(sizeof(T) <= sizeof(std::uint64_t));

  public:
    constexpr atomic(T value) noexcept : initial_(value) {}
    atomic(const atomic&) = delete;
    atomic& operator=(const atomic&) = delete;

    [[nodiscard]] T load(std::memory_order how = std::memory_order_seq_cst) const noexcept {
        return back(model::load(this, bits(initial_), order_of(how)));
    }
    void store(T value, std::memory_order how = std::memory_order_seq_cst) noexcept {
        model::store(this, bits(initial_), bits(value), order_of(how));
    }
    T exchange(T value, std::memory_order how = std::memory_order_seq_cst) noexcept {
        return change(how, false, [&](T) { return value; });
    }
    T fetch_or(T value, std::memory_order how = std::memory_order_seq_cst) noexcept {
        return change(how, value == T{}, [&](T old) { return static_cast<T>(old | value); });
    }
    T fetch_add(T value, std::memory_order how = std::memory_order_seq_cst) noexcept {
        return change(how, false, [&](T old) { return static_cast<T>(old + value); });
    }
    T fetch_sub(T value, std::memory_order how = std::memory_order_seq_cst) noexcept {
        return change(how, false, [&](T old) { return static_cast<T>(old - value); });
    }
    // Never fails for nothing.
    bool compare_exchange_weak(T& expected, T value, std::memory_order how,
                               std::memory_order) noexcept {
        const std::uint64_t wanted = bits(expected);
        const std::uint64_t old = model::modify(this, bits(initial_), order_of(how), false,
                                                [&](std::uint64_t before, std::uint64_t& made) {
                                                    made = bits(value);
                                                    return before == wanted;
                                                });
        expected = back(old);
        return old == wanted;
    }

  private:
    static std::uint64_t bits(T value) noexcept {
        std::uint64_t word = 0;
        std::memcpy(&word, &value, sizeof value);
        return word;
    }
    static T back(std::uint64_t word) noexcept {
        T value;
        std::memcpy(&value, &word, sizeof value);
        return value;
    }
    template <class Change>
    T change(std::memory_order how, bool idle, Change make) noexcept {
        return back(model::modify(this, bits(initial_), order_of(how), idle,
                                  [&](std::uint64_t old, std::uint64_t& made) {
                                      made = bits(make(back(old)));
                                      return true;
                                  }));
    }
    T initial_;
};

}  // namespace model
