// All scenarios: recorded, with every single fault at every step, and with seeded chaos.
//
//     RINGLOOP_SIM_SEEDS=10000   random runs (default 10,000)
//     RINGLOOP_SIM_FIRST=0       the first seed
//     RINGLOOP_SIM_ONLY=echo     one scenario alone
//     RINGLOOP_SIM_REPLAY='echo 7 work:17:error:104' test_sim '[replay]'   one run, with its steps
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <set>
#include <sstream>

#include "harness.hpp"

using namespace sim;
using namespace ringloop::testing;

namespace {

constexpr std::size_t failures_shown_max = 10;

std::string setting(const char* name, const std::string& otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : value;
}

std::vector<scenario> chosen() {
    const std::string only = setting("RINGLOOP_SIM_ONLY", "");
    std::vector<scenario> all;
    for (const scenario& what : scenarios())
        if (only.empty() || what.name == only) all.push_back(what);
    return all;
}

// Collects failed runs; shows the first few in full.
struct tally {
    std::size_t runs = 0;
    std::size_t failed = 0;
    void judge(const scenario& what, const variation& how, const outcome& result) {
        ++runs;
        if (result.broken.empty()) return;
        if (++failed <= failures_shown_max) UNSCOPED_INFO(describe(what, how, result));
    }
};

void exhaust(const scenario& what) {
    const outcome clean = run(what, {});
    if (!clean.broken.empty()) FAIL(describe(what, {}, clean));
    tally all;
    std::uint64_t index[3] = {};
    for (const step_record& step : clean.record) {
        const std::uint64_t number = index[static_cast<int>(step.domain)]++;
        for (const fault& applied : applicable_faults(step)) {
            variation how;
            how.planned = planned_fault{step.domain, number, applied};
            all.judge(what, how, run(what, how));
        }
    }
    std::cout << "  " << what.name << ": " << clean.record.size() << " steps, " << all.runs
              << " runs\n";
    INFO(all.failed << " of " << all.runs << " runs failed");
    CHECK(all.failed == 0);
}

}  // namespace

TEST_CASE("every scenario runs clean, and twice alike") {
    for (const scenario& what : chosen()) {
        const outcome first = run(what, {});
        INFO(describe(what, {}, first));
        CHECK(first.broken.empty());
        if (!what.exhaust) continue;
        const outcome second = run(what, {});
        REQUIRE(first.record.size() == second.record.size());
        for (std::size_t i = 0; i < first.record.size(); ++i)
            if (to_text(first.record[i]) != to_text(second.record[i]))
                FAIL("step " << i << " differs: " << to_text(first.record[i]) << " and "
                             << to_text(second.record[i]));
    }
}

TEST_CASE("no single fault at any step hurts any scenario") {
    for (const scenario& what : chosen())
        if (what.exhaust) exhaust(what);
}

TEST_CASE("seeded chaos hurts no scenario") {
    const std::uint64_t count = std::stoull(setting("RINGLOOP_SIM_SEEDS", "10000"));
    const std::uint64_t first = std::stoull(setting("RINGLOOP_SIM_FIRST", "0"));
    std::vector<scenario> all = chosen();
    std::erase_if(all, [](const scenario& what) { return !what.random; });
    tally seen;
    std::uint64_t steps = 0;
    for (std::uint64_t seed = first; seed < first + count && !all.empty(); ++seed) {
        const scenario& what = all[(seed / 7) % all.size()];
        const variation how = variation_of(seed);
        const outcome result = run(what, how);
        steps += result.record.size();
        seen.judge(what, how, result);
    }
    std::cout << "  " << seen.runs << " seeds, " << steps << " steps\n";
    INFO(seen.failed << " of " << seen.runs << " runs failed");
    CHECK(seen.failed == 0);
}

TEST_CASE("the run that RINGLOOP_SIM_REPLAY names", "[.][replay]") {
    std::istringstream words(setting("RINGLOOP_SIM_REPLAY", ""));
    std::string name, fault_text;
    variation how;
    words >> name >> how.seed >> fault_text;
    if (fault_text == "random") {
        how = variation_of(how.seed);
    } else if (!fault_text.empty()) {
        how.planned = parse_fault(fault_text);
    }
    bool found = false;
    for (const scenario& what : scenarios()) {
        if (what.name != name) continue;
        found = true;
        const outcome result = run(what, how);
        for (const step_record& step : result.record) std::cout << to_text(step) << "\n";
        std::cout << "ended by: " << (result.thrown.empty() ? "itself" : result.thrown) << "\n";
        INFO(describe(what, how, result));
        CHECK(result.broken.empty());
    }
    INFO("no scenario is called '" << name << "'");
    CHECK(found);
}
