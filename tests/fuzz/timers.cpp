// Targets: the timer wheel against a sorted list, the inbox against a plain one.
#include <array>
#include <set>
#include <tuple>

#include "ringloop/inbox.hpp"
#include "ringloop/timer.hpp"
#include "target.hpp"

namespace fuzz {
namespace {

struct wheel_model;

struct entry : ringloop::timer {
    entry() : timer([](timer& self) noexcept { static_cast<entry&>(self).fire(); }) {}
    void fire() noexcept;
    wheel_model* model = nullptr;
};

struct wheel_model {
    using key = std::tuple<std::int64_t, std::uint64_t, entry*>;  // deadline, order, who
    explicit wheel_model(bytes data) : in(data) {
        for (entry& each : entries) each.model = this;
    }
    void arm(entry& e, std::int64_t deadline_ns) {
        wheel.insert(e, deadline_ns, now_ns);
        armed.insert({deadline_ns, e.sequence, &e});
    }
    void disarm(entry& e) {
        if (e.armed()) armed.erase({e.deadline_ns, e.sequence, &e});
        wheel.cancel(e);
    }
    // Near, far, at the end of time, in the past.
    std::int64_t some_time() {
        const unsigned shift = static_cast<unsigned>(in.below(64));
        const auto distance = static_cast<std::int64_t>(in.word() >> 1 >> shift);
        if (in.below(8) == 0) return now_ns - distance;
        return distance > INT64_MAX - now_ns ? INT64_MAX : now_ns + distance;
    }

    choices in;
    ringloop::timer_wheel wheel;
    std::array<entry, 24> entries;
    std::set<key> armed;
    std::set<key> due;  // of the expire() under way
    std::int64_t now_ns = 0;
};

void entry::fire() noexcept {
    wheel_model& m = *model;
    must(deadline_ns <= m.now_ns, "no timer fires early");
    must(!armed(), "a timer that fires is out of the wheel");
    must(m.armed.erase({deadline_ns, sequence, this}) == 1, "a timer that was armed fires, once");
    // Those that were due when it began come in order; handlers may have taken some out.
    if (m.due.erase({deadline_ns, sequence, this}) == 1) {
        while (!m.due.empty() && m.armed.count(*m.due.begin()) == 0) m.due.erase(m.due.begin());
        must(m.due.empty() || *m.due.begin() > wheel_model::key(deadline_ns, sequence, this),
             "timers that are due together fire in order");
    }
    entry& other = m.entries[m.in.below(m.entries.size())];
    switch (m.in.below(8)) {
        case 0:
            m.disarm(other);
            break;
        case 1:
            if (!other.armed()) m.arm(other, m.some_time());
            break;
        default:
            break;
    }
}

void run_wheel(bytes data) {
    wheel_model m(data);
    for (int steps = 0; !m.in.empty() && steps < 2000; ++steps) {
        entry& e = m.entries[m.in.below(m.entries.size())];
        switch (m.in.below(4)) {
            case 0:
            case 1:
                m.disarm(e);
                m.arm(e, m.some_time());
                break;
            case 2:
                m.disarm(e);
                break;
            default:
                m.now_ns = std::max(m.now_ns, m.some_time());
                m.due.clear();
                for (const auto& each : m.armed)
                    if (std::get<0>(each) <= m.now_ns) m.due.insert(each);
                m.wheel.expire(m.now_ns, m.in.below(2) == 0 ? SIZE_MAX : m.in.below(8));
                m.due.clear();
        }
        must(m.wheel.size() == m.armed.size(), "the wheel knows how many it holds");
        const std::int64_t bound = m.wheel.next_deadline_ns();
        must(m.armed.empty() ? bound == INT64_MAX : bound <= std::get<0>(*m.armed.begin()),
             "the bound is never late");
    }
    for (entry& each : m.entries) m.disarm(each);
    must(m.wheel.size() == 0 && m.armed.empty(), "cancel takes out");
}
const registered timer_wheel("timer_wheel", run_wheel);

struct letter : ringloop::posted {
    bool posted_now = false;
};

void run_inbox(bytes data) {
    choices in(data);
    ringloop::inbox box;
    std::array<letter, 16> letters;
    std::vector<letter*> expected;
    while (!in.empty()) {
        letter& chosen = letters[in.below(letters.size())];
        if (in.below(4) != 0) {
            if (chosen.posted_now) continue;
            chosen.posted_now = true;
            box.push(chosen);
            expected.push_back(&chosen);
            continue;
        }
        must(box.empty() == expected.empty(), "an inbox knows whether it is empty");
        ringloop::posted* next = box.take_all();
        for (letter* each : expected) {
            must(next == each, "posts come in order");
            next = next->next;
            each->posted_now = false;
        }
        must(next == nullptr && box.empty(), "all are taken");
        expected.clear();
    }
}
const registered inbox("inbox", run_inbox);

}  // namespace
}  // namespace fuzz
