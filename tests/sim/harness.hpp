// The simulation harness: runs scenarios, which are ordinary coroutines of the library, over the
// simulated driver, and checks after each run what must hold whatever went wrong.
//
//     record   one clean run; its steps are the places where faults can strike
//     exhaust  one run for each step and each fault that applies there
//     random   many faults, late and reordered completions, drawn from a seed
//
// Checked after each run: it ended; nothing is in flight; every buffer is back, none was given back
// twice or written to while free; every descriptor is closed; bytes seen are a prefix of the bytes
// written; and, where no fault was of a kind that a user may see, everything was done.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"
#include "ringloop/testing/fake_driver.hpp"

namespace sim {

namespace rl = ringloop;

// What one run knows. Scenarios report what they saw; the harness judges.
struct world {
    rl::scheduler& home;
    rl::testing::fake_driver& io;
    std::uint64_t seed = 0;  // also for choices of the scenario itself
    std::vector<std::string> broken;

    // A rule that holds in every run.
    void must(bool holds, const std::string& rule);
    // A rule that holds where no fault was visible to users.
    void must_if_clean(bool holds, const std::string& rule);
    [[nodiscard]] bool clean() const noexcept;

    // The content of stream `id` from byte `at` on, and its check. Any two streams differ.
    static std::vector<std::byte> content(unsigned id, std::size_t at, std::size_t size);
    void must_match(unsigned id, std::size_t at, std::span<const std::byte> seen);
};

struct scenario {
    std::string name;
    rl::task<void> (*body)(world&);
    // Changes sizes and latencies; may add a scripted world to the driver.
    void (*configure)(rl::testing::fake_config&) = nullptr;
    void (*prepare)(world&) = nullptr;
    void (*check)(world&) = nullptr;  // after the end of the body
    bool random = true;               // takes part in random runs
    bool exhaust = true;
};

void add(const scenario& added);
[[nodiscard]] std::vector<scenario>& scenarios();

struct registered {
    explicit registered(const scenario& added) { add(added); }
};

struct variation {
    std::uint64_t seed = 0;
    rl::testing::chaos random;
    std::optional<rl::testing::planned_fault> planned;
    std::uint64_t fails_allocation = 0;  // see failing_new.hpp; 0: none
};

struct outcome {
    std::vector<std::string> broken;  // empty: good
    std::vector<rl::testing::step_record> record;
    std::string report;  // of the driver, if something is broken
    std::string thrown;  // what the body threw; empty: it ended by itself
    bool harmful = false;
};

[[nodiscard]] outcome run(const scenario& what, const variation& how);
// The line that repeats this run alone.
[[nodiscard]] std::string replay_command(const scenario& what, const variation& how);
// Everything that a failed run should say.
[[nodiscard]] std::string describe(const scenario& what, const variation& how, const outcome& bad);

// The variation that a seed stands for in random runs.
[[nodiscard]] variation variation_of(std::uint64_t seed);

}  // namespace sim
