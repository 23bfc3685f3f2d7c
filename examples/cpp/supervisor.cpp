// supervisor: keeps programs running.
//
//     supervisor [--grace SECONDS] PROGRAM ARGUMENTS… [-- PROGRAM ARGUMENTS…]…
//
// A program that ends is started again, after a pause that doubles, up to `pause_max`, unless it
// has run for that long. SIGHUP restarts all of them. SIGINT and SIGTERM end them and then this
// program: each gets SIGTERM, and SIGKILL if it is still there after the grace (5 s).
#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <ringloop/ringloop.hpp>

namespace rl = ringloop;
using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds pause_min = 100ms;
constexpr milliseconds pause_max = 10s;

struct orders {
    milliseconds grace = 5s;
    std::vector<rl::command> programs;
};

void say(const rl::command& who, const std::string& what) {
    std::cerr << "supervisor: " << who.program << ' ' << what << std::endl;
}

std::string in_words(const rl::exit_status& end) {
    return end.signal != 0 ? "by signal " + std::to_string(end.signal)
                           : "with code " + std::to_string(end.code);
}

rl::task<void> set_once(rl::event& awaited) {
    co_await awaited.wait();
}

// Not interrupted by a stop, and no longer than the grace.
rl::task<rl::exit_status> end(rl::process& child, milliseconds grace) {
    child.signal(SIGTERM);
    try {
        co_return co_await rl::with_timeout(grace, child.wait());
    } catch (const rl::timed_out&) {
        child.kill();
    }
    co_return co_await child.wait();
}

// Until it has ended: by itself (true), for a restart, or for a stop.
rl::task<bool> run_once(const rl::command& what, rl::event& restart, milliseconds grace) {
    auto child = rl::process::spawn(what);
    say(what, "started as " + std::to_string(child.id()));
    std::optional<std::variant<rl::exit_status, std::monostate>> first;
    try {
        first = co_await rl::when_any(child.wait(), set_once(restart));
    } catch (const rl::operation_cancelled&) {
        // A stop: what is left to do is below, for a handler must not wait.
    }
    const bool by_itself = first && first->index() == 0;
    rl::exit_status status;
    if (by_itself) {
        status = std::get<0>(*first);
    } else {
        status = co_await rl::shield(end(child, grace));
    }
    say(what, "ended " + in_words(status));
    if (!first) throw rl::operation_cancelled();
    co_return by_itself;
}

rl::task<void> keep_running(rl::command what, rl::event& restart, milliseconds grace) {
    milliseconds pause = pause_min;
    while (true) {
        const auto began = rl::scheduler::current()->now_ns();
        try {
            if (!co_await run_once(what, restart, grace)) continue;
        } catch (const rl::error& failure) {
            say(what, std::string("does not start: ") + failure.what());
        }
        const auto ran = std::chrono::nanoseconds(rl::scheduler::current()->now_ns() - began);
        if (ran > pause_max) pause = pause_min;
        co_await rl::sleep_for(pause);
        pause = std::min(2 * pause, pause_max);
    }
}

rl::task<void> supervise(orders given) {
    rl::signal_set signals(SIGHUP);
    rl::event restart;
    co_await rl::with_group([&](rl::task_group& all) -> rl::task<void> {
        for (rl::command& each : given.programs)
            all.spawn(keep_running(std::move(each), restart, given.grace));
        while (true) {
            co_await signals.next();
            restart.set();    // wakes all who wait now,
            restart.reset();  // and nobody later
        }
    });
}

orders read(std::vector<std::string> words) {
    orders given;
    std::size_t at = 0;
    if (words.size() >= 2 && words[0] == "--grace") {
        given.grace = milliseconds(static_cast<long>(1000 * std::stod(words[1])));
        at = 2;
    }
    for (bool begins = true; at < words.size(); ++at) {
        if (words[at] == "--") {
            begins = true;
        } else if (std::exchange(begins, false)) {
            given.programs.emplace_back(words[at]).input = rl::stdio::null();
        } else {
            given.programs.back().arguments.push_back(words[at]);
        }
    }
    if (given.programs.empty())
        throw std::invalid_argument(
            "usage: supervisor [--grace SECONDS] PROGRAM ARGUMENTS... [-- PROGRAM "
            "ARGUMENTS...]...");
    return given;
}

}  // namespace

int main(int count, char** words) try {
    return rl::run(supervise(read({words + 1, words + count})));
} catch (const std::exception& failure) {
    std::cerr << "supervisor: " << failure.what() << '\n';
    return 1;
}
