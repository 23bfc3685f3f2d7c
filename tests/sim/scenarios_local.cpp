// Scenarios without a network: files, timers, groups, other threads.
#include <algorithm>

#include "ringloop/fs/file.hpp"
#include "ringloop/offload.hpp"
#include "streams.hpp"

namespace sim {
namespace {

// ---- file_copy: read and written in pieces, synced, described, closed

constexpr std::size_t file_size = 10'000;

void make_source(world& w) {
    const auto bytes = world::content(40, 0, file_size);
    w.io.kernel().add_directory("/data");
    w.io.kernel().add_file("/data/from",
                           {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

task<std::size_t> copy(rl::fs::file& from, rl::fs::file& to) {
    std::byte room[4096];
    std::size_t done = 0;
    for (;;) {
        const std::size_t count = co_await from.read_at(room, static_cast<std::int64_t>(done));
        if (count == 0) co_return done;
        for (std::size_t written = 0; written < count;)
            written += co_await to.write_at({room + written, count - written},
                                            static_cast<std::int64_t>(done + written));
        done += count;
    }
}

task<void> file_copy(world& w) {
    auto from = co_await rl::fs::open("/data/from");
    auto to = co_await rl::fs::open("/data/to", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    w.must_if_clean((co_await from.status()).stx_size == file_size, "the source's size is known");
    const std::size_t copied = co_await copy(from, to);
    co_await to.sync();
    co_await to.close();
    const auto facts = co_await rl::fs::status("/data/to");
    w.must_if_clean(copied == file_size, "all of it was copied");
    w.must(facts.stx_size == copied || !w.clean(), "the copy's size is what was written");
}

void check_copy(world& w) {
    const std::string seen = w.io.kernel().file_content("/data/to");
    w.must_match(40, 0, std::as_bytes(std::span(seen)));
}
const registered copy_scenario(
    {.name = "file_copy", .body = file_copy, .prepare = make_source, .check = check_copy});

// ---- file_cancel: opens and reads given up while the disk has them; no descriptor leaks

task<void> open_and_read() {
    auto file = co_await rl::fs::open("/data/from");
    std::byte room[100];
    for (std::int64_t offset = 0; offset < 500; offset += 100)
        static_cast<void>(co_await file.read_at(room, offset));
}

task<void> file_cancel(world& w) {
    for (int turn = 0; turn < 8; ++turn) {
        try {
            co_await rl::with_timeout(25us * turn, open_and_read());
        } catch (const rl::timed_out&) {
            continue;
        }
    }
    bool missing = false;
    try {
        auto none = co_await rl::fs::open("/data/none");
    } catch (const rl::error& failure) {
        missing = failure.code() == std::errc::no_such_file_or_directory;
    }
    w.must_if_clean(missing, "a missing file is reported");
}
const registered file_cancel_scenario({.name = "file_cancel",
                                       .body = file_cancel,
                                       .prepare = make_source});

// ---- timers: order, never early, cancels that race the deadline

task<void> note(world& w, std::int64_t due_ns, std::vector<std::int64_t>& fired) {
    co_await rl::sleep_until(due_ns);
    w.must(w.home.now_ns() >= due_ns, "a timer fired early");
    fired.push_back(due_ns);
}

task<void> timers(world& w) {
    std::vector<std::int64_t> fired;
    const std::int64_t begun = w.home.now_ns();
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        // Some closer together than a turn takes: a timer that fires with its neighbour is early.
        for (const int delay_ns :
             {500'000, 100'000, 300'000, 100'700, 70'000'000, 101'500, 5'000'000})
            group.spawn(note(w, begun + delay_ns, fired));
        co_return;
    });
    w.must(fired.size() == 7, "every timer fired once");
    w.must(std::is_sorted(fired.begin(), fired.end()), "timers fired in order");
    int ran_out = 0, finished = 0;
    for (int sleep = 95; sleep <= 105; ++sleep) {
        try {
            co_await rl::with_timeout(
                100us, [](int us) -> task<void> { co_await rl::sleep_for(1us * us); }(sleep));
            ++finished;
        } catch (const rl::timed_out&) {
            ++ran_out;
        }
    }
    w.must(ran_out + finished == 11, "each race has one end");
    w.must_if_clean(ran_out >= 5 && finished >= 5, "each race is won by the earlier");
}
const registered timers_scenario({.name = "timers", .body = timers});

// ---- group_failure: one of several fails; the others are stopped wherever they are

task<void> wait_for_ever(tcp_listener& listener, int& stopped) {
    try {
        tcp_stream never = co_await listener.accept();
    } catch (const rl::operation_cancelled&) {
        ++stopped;
        throw;
    }
}

task<void> fail_late() {
    co_await rl::sleep_for(1ms);
    throw rl::error(std::make_error_code(std::errc::bad_message), "planned");
}

task<void> group_failure(world& w) {
    auto a = tcp_listener::bind(w.home, at(41));
    auto b = tcp_listener::bind(w.home, at(42));
    int stopped = 0;
    bool failed = false;
    try {
        co_await rl::with_group([&](rl::task_group& group) -> task<void> {
            group.spawn(wait_for_ever(a, stopped));
            group.spawn(wait_for_ever(b, stopped));
            group.spawn(fail_late());
            co_await rl::sleep_for(1h);
        });
    } catch (const rl::error& failure) {
        failed = failure.code() == std::errc::bad_message;
    }
    w.must_if_clean(failed, "the group ends by the failure");
    w.must_if_clean(stopped == 2, "the others were stopped");
}
const registered group_scenario({.name = "group_failure", .body = group_failure});

// ---- offload: other threads beside I/O

task<void> offload(world& w) {
    rl::thread_pool pool(2);
    auto listener = tcp_listener::bind(w.home, at(43));
    co_await rl::with_group([&](rl::task_group& servers) -> task<void> {
        co_await beside(serve_echo(listener, servers), [](world& x, auto& threads) -> task<void> {
            tcp_stream stream = co_await tcp_stream::connect(at(43));
            sink back{x, 44};
            for (std::size_t sent = 0; sent < 400; sent += 100) {
                const auto bytes =
                    co_await rl::offload(threads, [sent] { return world::content(44, sent, 100); });
                co_await stream.write_all(bytes);
                co_await read_up_to(stream, back, sent + 100, true);
            }
            bool thrown = false;
            try {
                co_await rl::offload(threads, [] { throw std::domain_error("planned"); });
            } catch (const std::domain_error&) {
                thrown = true;
            }
            x.must(thrown, "what a worker throws arrives");
            x.must_if_clean(back.seen == 400, "the echo is complete");
        }(w, pool));
    });
}
const registered offload_scenario(
    {.name = "offload",
     .body = offload,
     .configure = [](rl::testing::fake_config& config) { config.outside_threads = true; },
     .random = false,
     .exhaust = false});

}  // namespace
}  // namespace sim
