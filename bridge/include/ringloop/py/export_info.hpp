// export_info: what is known of one exported function, and the counters of its first steps.
//
// gil says how the part of a coroutine runs that is inside Python's own await, up to the first
// wait: hold (the default: right for what only starts something), release, or auto, which releases
// once that part has turned out to be long. Later parts run in the loop's native phase.
//
// Thread: any with the GIL, which is held wherever a counter changes: atomics, but no locked
// instructions. usual_ns may miss a step of another loop's.
#pragma once

#include <Python.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "ringloop/scheduler.hpp"

namespace ringloop::py {

enum class gil : unsigned char { hold, release, automatic };

namespace detail {

class gil_counter {
  public:
    void add(std::uint64_t more) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
    [[nodiscard]] std::uint64_t value() const noexcept {
        return value_.load(std::memory_order_relaxed);
    }

  private:
    std::atomic<std::uint64_t> value_{0};
};

struct export_info {
    const char* name;
    gil policy = gil::hold;
    mutable gil_counter calls{};
    mutable gil_counter held_ns{};                   // ran with the GIL
    mutable gil_counter released_ns{};               // ran without it
    mutable gil_counter waited_ns{};                 // until it had the GIL again
    mutable std::atomic<std::uint64_t> usual_ns{0};  // of a first step, smoothed
    mutable const export_info* next = nullptr;
    const char* module = "";  // what Python calls it
};

// A copy of a name or docstring, as long as the process.
[[nodiscard]] inline const char* kept_text(const char* text) {
    const std::size_t size = std::strlen(text) + 1;
    return static_cast<const char*>(std::memcpy(new char[size], text, size));
}

// Releases the GIL where the policy says so, for as long as it lives, and counts.
class first_step {
  public:
    static constexpr std::uint64_t worth_releasing_ns = 20'000;

    first_step(const export_info& about, scheduler& clock) noexcept : about_(about), clock_(clock) {
        about.calls.add(1);
        if (about.policy == gil::hold) return;
        begin_ns_ = clock.now_ns();
        if (about.policy == gil::release ||
            about.usual_ns.load(std::memory_order_relaxed) > worth_releasing_ns)
            thread_ = PyEval_SaveThread();
    }
    ~first_step() {
        if (about_.policy == gil::hold) return;
        const std::int64_t end_ns = clock_.now_ns();
        const auto ran = static_cast<std::uint64_t>(end_ns - begin_ns_);
        const std::uint64_t usual = about_.usual_ns.load(std::memory_order_relaxed);
        about_.usual_ns.store(usual - usual / 8 + ran / 8, std::memory_order_relaxed);
        if (thread_ == nullptr) {
            about_.held_ns.add(ran);
            return;
        }
        PyEval_RestoreThread(thread_);
        about_.released_ns.add(ran);
        about_.waited_ns.add(static_cast<std::uint64_t>(clock_.now_ns() - end_ns));
    }
    first_step(const first_step&) = delete;
    first_step& operator=(const first_step&) = delete;

  private:
    const export_info& about_;
    scheduler& clock_;
    std::int64_t begin_ns_ = 0;
    PyThreadState* thread_ = nullptr;
};

}  // namespace detail
}  // namespace ringloop::py
