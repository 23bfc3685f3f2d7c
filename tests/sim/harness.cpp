// One run of one scenario, and the words for a failed one.
#include "harness.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <sstream>
#include <stop_token>

#include "failing_new.hpp"
#include "ringloop/error.hpp"
#include "ringloop/sync_wait.hpp"
#include "ringloop/testing/kernel_memory.hpp"
#include "ringloop/when.hpp"

namespace sim {
namespace {

using namespace rl::testing;

constexpr std::chrono::minutes limit{10};  // of virtual time

// Shown if the process dies in the middle of a run: an assertion, a sanitizer, a deadlock that
// does not end.
char current_run[512];

extern "C" void show_current_run(int number) {
    [[maybe_unused]] auto written = write(STDERR_FILENO, current_run, std::strlen(current_run));
    std::signal(number, SIG_DFL);
    std::raise(number);
}

void note_current_run(const std::string& command) {
    static const bool installed = [] {
        for (const int number : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(number, show_current_run);
        return true;
    }();
    static_cast<void>(installed);
    const std::string text = "died in the simulated run: " + command + "\n";
    std::strncpy(current_run, text.c_str(), sizeof current_run - 1);
    rl::set_error_log([](std::exception_ptr) noexcept {});  // expected by the thousand
}

fake_config config_of(const scenario& what, const variation& how) {
    fake_config config;
    config.driver.buffer_count = 8;
    config.driver.buffer_size = 256;
    config.driver.submission_entries = 64;
    config.kernel.socket_buffer = 1024;
    config.steps_max = 200'000;
    if (what.configure != nullptr) what.configure(config);
    config.random = how.random;
    config.random.seed = how.seed;
    if (how.planned) config.plan = {*how.planned};
    return config;
}

void run_body(const scenario& what, world& w, outcome& out, const std::stop_token& stop) {
    try {
        const program_memory theirs;
        rl::sync_wait(w.home, rl::with_timeout(limit, what.body(w)), stop);
    } catch (const rl::error& failure) {
        out.thrown = failure.what();
    } catch (const rl::operation_cancelled& cancelled) {
        out.thrown = cancelled.what();
    } catch (const rl::timed_out& late) {
        out.thrown = late.what();
    } catch (const std::bad_alloc& exhausted) {
        out.thrown = exhausted.what();
        w.must(memory_shortage::has_failed(), "bad_alloc although there is memory");
    } catch (const std::exception& other) {
        out.thrown = other.what();
        out.broken.push_back(std::string("an exception of an unexpected kind: ") + other.what());
    }
    w.io.stop_faults();
    const program_memory theirs;
    w.home.run();
}

void check_books(world& w) {
    w.must(w.io.in_flight() == 0, "an operation is still in flight");
    w.must(w.io.leased_buffers() == 0, "a buffer was not given back");
    w.must(w.io.kernel().open_descriptors() == 0, "a descriptor was left open");
    w.must(!w.home.has_native_work() && !w.home.has_host_work(), "work is left over");
    w.must(w.home.timers().size() == 0, "a timer is left over");
    for (const std::string& violation : w.io.violations()) w.must(false, violation);
}

}  // namespace

bool world::clean() const noexcept {
    return !io.harmful_fault_injected() && !memory_shortage::has_failed();
}

void world::must(bool holds, const std::string& rule) {
    if (!holds) broken.push_back(rule);
}

void world::must_if_clean(bool holds, const std::string& rule) {
    if (!holds && clean()) broken.push_back(rule + " (although no fault stood in the way)");
}

std::vector<std::byte> world::content(unsigned id, std::size_t at, std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) {
        const std::size_t n = at + i;
        bytes[i] = static_cast<std::byte>((n * 131 + n / 256 * 7 + id * 59 + 11) & 0xff);
    }
    return bytes;
}

void world::must_match(unsigned id, std::size_t at, std::span<const std::byte> seen) {
    const kernel_memory ours;
    const std::vector<std::byte> expected = content(id, at, seen.size());
    must(std::equal(seen.begin(), seen.end(), expected.begin()),
         "stream " + std::to_string(id) + " is damaged between byte " + std::to_string(at) +
             " and " + std::to_string(at + seen.size()));
}

std::vector<scenario>& scenarios() {
    static std::vector<scenario> all;
    return all;
}

void add(const scenario& added) {
    scenarios().push_back(added);
}

outcome run(const scenario& what, const variation& how) {
    const kernel_memory ours;  // all but what the scenario and the library ask for
    note_current_run(replay_command(what, how));
    outcome out;
    auto body = make_fake_driver(config_of(what, how));
    fake_driver& io = *body;
    std::stop_source stop;
    {
        rl::scheduler home(std::move(body));
        world w{home, io, how.seed, {}};
        io.on_failure = [&](const std::string& report) {
            out.report = report;
            w.must(false, report.substr(0, report.find('\n')));
            stop.request_stop();
        };
        if (what.prepare != nullptr) what.prepare(w);
        run_body(what, w, out, stop.get_token());
        w.must_if_clean(out.thrown.empty(), "it ended by '" + out.thrown + "'");
        check_books(w);
        if (what.check != nullptr) what.check(w);
        out.broken.insert(out.broken.end(), w.broken.begin(), w.broken.end());
        out.record = io.record();
        out.harmful = io.harmful_fault_injected();
        if (!out.broken.empty() && out.report.empty()) out.report = io.report("at the end");
        if (io.in_flight() != 0) io.abandon_after_fork();  // so that the other runs can go on
    }
    return out;
}

std::string replay_command(const scenario& what, const variation& how) {
    if (how.fails_allocation != 0)
        return "RINGLOOP_SIM_ONLY=" + what.name + " RINGLOOP_SIM_ALLOCATION=" +
               std::to_string(how.fails_allocation) + " test_sim 'an allocation*'";
    std::string words = what.name + " " + std::to_string(how.seed);
    if (how.planned) words += " " + to_text(*how.planned);
    if (!how.planned && how.random.faults + how.random.latencies + how.random.disorder != 0)
        words += " random";
    return "RINGLOOP_SIM_REPLAY='" + words + "' test_sim '[replay]'";
}

std::string describe(const scenario& what, const variation& how, const outcome& bad) {
    std::ostringstream text;
    text << "scenario " << what.name << ", seed " << how.seed;
    if (how.planned) text << ", fault " << to_text(*how.planned);
    if (!bad.thrown.empty()) text << ", ended by '" << bad.thrown << "'";
    text << "\n";
    for (const std::string& rule : bad.broken) text << "  broken: " << rule << "\n";
    text << "  again: " << replay_command(what, how) << "\n" << bad.report;
    return text.str();
}

variation variation_of(std::uint64_t seed) {
    static constexpr unsigned fault_rates[] = {0, 5, 20, 60};
    variation how;
    how.seed = seed;
    how.random.faults = fault_rates[seed % 4];
    how.random.latencies = static_cast<unsigned>(seed / 4 % 3 * 200);
    how.random.disorder = static_cast<unsigned>(seed / 12 % 3 * 300);
    how.random.harmless_only = (seed / 36) % 2 == 0;
    if (how.random.faults + how.random.latencies + how.random.disorder == 0)
        how.random.latencies = 100;
    return how;
}

}  // namespace sim
