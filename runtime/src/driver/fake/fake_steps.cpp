// Steps: numbering, recording, planned and drawn faults; reports of failed runs.
#include <cstdio>
#include <exception>
#include <sstream>

#include "objects.hpp"
#include "ringloop/testing/fake_driver.hpp"

namespace ringloop::testing {
namespace {

constexpr std::size_t steps_shown = 40;

constexpr const char* operation_names[] = {"nop",   "accept", "connect", "receive", "receive_into",
                                           "send",  "poll",   "open",    "read",    "write",
                                           "statx", "fsync",  "close",   "rename",  "unlink",
                                           "mkdir", "link",   "symlink", "call"};
constexpr const char* stage_names[] = {"queued", "waiting", "held back", "running", "decided"};

}  // namespace

// splitmix64
std::uint64_t fake_driver::random() noexcept {
    std::uint64_t z = (random_state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
}

bool fake_driver::chance(unsigned per_mille) noexcept {
    return per_mille != 0 && random() % 1000 < per_mille;
}

void fake_driver::stop_faults() noexcept {
    random_.faults = random_.latencies = random_.disorder = 0;
    plan_.clear();
}

fault fake_driver::planned(step_domain domain, std::uint64_t index) const noexcept {
    for (const planned_fault& entry : plan_) {
        if (entry.domain == domain && entry.index == index) return entry.what;
    }
    return {};
}

fault fake_driver::drawn(const step_record& step) {
    if (!chance(random_.faults)) return {};
    std::vector<fault> choices = applicable_faults(step);
    if (random_.harmless_only)
        std::erase_if(choices, [&](const fault& f) { return !harmless(step, f); });
    return choices.empty() ? fault{} : choices[random() % choices.size()];
}

// Numbers the step, decides its fault, writes it down. `place` finds the record again: the result
// recorded here is the natural one, the caller corrects it.
fault fake_driver::next_fault(step_record step, std::size_t& place) {
    const std::uint64_t index = step_count_[static_cast<int>(step.domain)]++;
    fault injected = planned(step.domain, index);
    if (injected.kind == fault_kind::none) injected = drawn(step);
    step.injected = injected;
    step.time_ns = now_ns_;
    if (injected.kind != fault_kind::none) {
        ++faults_injected_;
        harmful_ = harmful_ || !harmless(step, injected);
    }
    place = record_.size();
    record_.push_back(step);
    turns_at_progress_ = turns_;
    if (record_.size() == steps_max_) fail("no end in sight: the budget of steps is used up");
    if (record_.size() > 2 * steps_max_) {
        std::fputs(report("the run does not end even after it was told to").c_str(), stderr);
        std::terminate();
    }
    return injected;
}

std::vector<step_record> fake_driver::record(step_domain domain) const {
    std::vector<step_record> chosen;
    for (const step_record& step : record_) {
        if (step.domain == domain) chosen.push_back(step);
    }
    return chosen;
}

void fake_driver::fail(const std::string& headline) {
    const std::string text = report(headline);
    if (on_failure && ++failures_ < 4) {
        on_failure(text);
        return;
    }
    std::fputs(text.c_str(), stderr);
    std::terminate();
}

std::string fake_driver::report(const std::string& headline) const {
    std::ostringstream text;
    text << headline << "\n at " << now_ns_ << " ns, after " << record_.size() << " steps and "
         << turns_ << " turns; in flight:\n";
    for (const operation* op = first_; op != nullptr; op = op->next) {
        text << "  " << operation_names[static_cast<int>(op->code)] << " fd=" << op->fd
             << (op->multishot ? " multishot" : "") << (op->cancel_requested ? " cancelled" : "");
        const std::size_t index = op->driver_word & 0xffffffff;
        if (op->armed && index < flights_.size())
            text << " " << stage_names[static_cast<int>(flights_[index].at)];
        text << "\n";
    }
    text << " leased buffers: " << leased_ << "; undelivered: " << undelivered(phase::native)
         << " native, " << undelivered(phase::host) << " host; open descriptors:\n"
         << kernel_.describe_descriptors() << " last steps:\n";
    const std::size_t first = record_.size() > steps_shown ? record_.size() - steps_shown : 0;
    for (std::size_t i = first; i < record_.size(); ++i)
        text << "  " << to_text(record_[i]) << "\n";
    return text.str();
}

}  // namespace ringloop::testing
