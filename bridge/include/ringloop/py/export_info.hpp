// export_info: what is known of one exported function, and the counters of its first steps.
//
// gil says how the part of a coroutine runs that is inside Python's own await, up to the first
// wait: hold (the default: right for what only starts something), release, or auto, which releases
// once that part has turned out to be long. Later parts run in the loop's native phase.
//
// Thread: the loop's with the GIL, for each loop that awaits the function; the counters are
// atomics.
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

struct export_info {
    const char* name;
    gil policy = gil::hold;
    mutable std::atomic<std::uint64_t> calls{0};
    mutable std::atomic<std::uint64_t> held_ns{0};      // ran with the GIL
    mutable std::atomic<std::uint64_t> released_ns{0};  // ran without it
    mutable std::atomic<std::uint64_t> waited_ns{0};    // until it had the GIL again
    mutable std::atomic<std::uint64_t> usual_ns{0};     // of a first step, smoothed
    mutable const export_info* next = nullptr;
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
        about.calls.fetch_add(1, std::memory_order_relaxed);
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
            about_.held_ns.fetch_add(ran, std::memory_order_relaxed);
            return;
        }
        PyEval_RestoreThread(thread_);
        about_.released_ns.fetch_add(ran, std::memory_order_relaxed);
        about_.waited_ns.fetch_add(static_cast<std::uint64_t>(clock_.now_ns() - end_ns),
                                   std::memory_order_relaxed);
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
