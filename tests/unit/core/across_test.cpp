// Several schedulers: tasks that run elsewhere, tasks spawned by plain threads, pools, sockets that
// are handed over.
#include <sched.h>

#include <atomic>
#include <set>
#include <thread>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT
using namespace std::chrono_literals;

namespace {

rl::scheduler_pool_options on_body(const rl::testing::body& body, unsigned threads) {
    rl::scheduler_pool_options options;
    options.threads = threads;
    options.driver.choice = body.kind;
    return options;
}

rl::task<std::thread::id> where() {
    co_await rl::yield();
    co_return std::this_thread::get_id();
}

rl::task<int> fail(const char* what) {
    co_await rl::sleep_for(1ms);
    throw std::runtime_error(what);
}

// Sleeps until it is stopped; notes that it was.
rl::task<void> until_stopped(std::atomic<int>& began, std::atomic<int>& stopped) {
    ++began;
    try {
        co_await rl::sleep_for(1h);
    } catch (const rl::operation_cancelled&) {
        ++stopped;
        throw;
    }
}

rl::task<void> echo(int socket) {
    rl::net::tcp_stream stream(*rl::scheduler::current(), socket);
    while (auto chunk = co_await stream.receive()) co_await stream.write_all(chunk.bytes());
}

}  // namespace

TEST_CASE("a task on another scheduler runs there and its outcome comes back", "[across]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::scheduler_pool pool(on_body(body, 2));
    const auto here = std::this_thread::get_id();
    std::set<std::thread::id> seen;
    bool back = true;
    std::string said;
    r.run([&]() -> rl::task<void> {
        for (std::size_t i = 0; i < 200; ++i) {
            seen.insert(co_await rl::on(pool[i % 2], where()));
            back = back && std::this_thread::get_id() == here;
        }
        seen.insert(co_await rl::on(r.home, where()));
        try {
            co_await rl::on(pool[0], fail("there"));
        } catch (const std::runtime_error& e) {
            said = e.what();
        }
    }());
    CHECK(seen.size() == 3);
    CHECK(seen.count(here) == 1);
    CHECK(back);
    CHECK(said == "there");
}

TEST_CASE("a stop reaches the task on the other scheduler, and its end is awaited", "[across]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::scheduler_pool pool(on_body(body, 1));
    std::atomic<int> began{0}, stopped{0};
    int cancelled = 0, late = 0;
    r.run([&]() -> rl::task<void> {
        for (int i = 0; i < 50; ++i) {
            std::stop_source source;
            std::thread stopper([&] { source.request_stop(); });
            try {
                co_await rl::with_stop(source.get_token(),
                                       rl::detail::run_on(pool[0], until_stopped(began, stopped)));
            } catch (const rl::operation_cancelled&) {
                ++cancelled;
            }
            stopper.join();
            if (began != stopped) ++late;
        }
    }());
    CHECK(cancelled == 50);
    CHECK(late == 0);
}

TEST_CASE("a stop that was there before keeps the task from beginning", "[across]") {
    runner r(rl::testing::real_bodies().front());
    rl::scheduler_pool pool(on_body(rl::testing::real_bodies().front(), 1));
    std::atomic<int> began{0}, stopped{0};
    bool cancelled = false;
    r.run([&]() -> rl::task<void> {
        std::stop_source source;
        source.request_stop();
        try {
            co_await rl::with_stop(source.get_token(),
                                   rl::detail::run_on(pool[0], until_stopped(began, stopped)));
        } catch (const rl::operation_cancelled&) {
            cancelled = true;
        }
    }());
    CHECK(cancelled);
    CHECK(began == 0);
}

TEST_CASE("a plain thread spawns tasks, waits for them and stops them", "[across]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    rl::scheduler_pool pool(on_body(body, 1));
    rl::remote_task<std::thread::id> first = rl::spawn(pool[0], where());
    CHECK(first.get() != std::this_thread::get_id());
    rl::remote_task<int> failing = rl::spawn(pool[0], fail("spawned"));
    CHECK_THROWS_WITH(failing.get(), "spawned");
    std::atomic<int> began{0}, stopped{0};
    rl::remote_task<void> asked = rl::spawn(pool[0], until_stopped(began, stopped));
    asked.request_stop();
    CHECK_THROWS_AS(asked.get(), rl::operation_cancelled);
    CHECK(asked.done());
    for (int i = 0; i < 100; ++i) {
        rl::remote_task<void> dropped = rl::spawn(pool[0], until_stopped(began, stopped));
    }
    CHECK(began == stopped);
}

TEST_CASE("every member of a pool serves, and the first failure ends all", "[across]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::scheduler_pool pool(on_body(body, 3));
    REQUIRE(pool.size() == 3);
    std::atomic<int> began{0}, stopped{0};
    std::string said;
    r.run([&]() -> rl::task<void> {
        auto make = [&](unsigned i) -> rl::task<void> {
            if (i != 2) {
                co_await until_stopped(began, stopped);
                co_return;
            }
            co_await fail("the third");
        };
        try {
            co_await rl::on_each(pool, make);
        } catch (const std::runtime_error& e) {
            said = e.what();
        }
    }());
    CHECK(said == "the third");
    CHECK(began == stopped);
}

TEST_CASE("members of a pool stay on processors that the process may use", "[across]") {
    const auto body = rl::testing::real_bodies().front();
    rl::scheduler_pool pool(on_body(body, 0));
    cpu_set_t allowed;
    REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
    CHECK(pool.size() == static_cast<std::size_t>(CPU_COUNT(&allowed)));
    auto ask = []() -> rl::task<int> { co_return sched_getcpu(); };
    for (std::size_t i = 0; i < pool.size(); ++i) {
        const int processor = rl::spawn(pool[i], ask()).get();
        CHECK(CPU_ISSET(processor, &allowed));
    }
}

TEST_CASE("a pool whose driver cannot be made leaves no thread", "[across]") {
    rl::scheduler_pool_options options = on_body({rl::backend::uring}, 2);
    options.driver.buffer_count = 3;  // not a power of two
    CHECK_THROWS(rl::scheduler_pool(options));
}

TEST_CASE("an accepted socket is handed to another scheduler", "[across]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    rl::scheduler_pool pool(on_body(body, 2));
    std::string got;
    r.run([&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind(rl::net::endpoint("127.0.0.1", 0));
        for (std::size_t i = 0; i < 4; ++i) {
            auto client = co_await rl::net::tcp_stream::connect(listener.local());
            auto accepted = co_await listener.accept();
            auto talk = [&]() -> rl::task<void> {
                std::array<std::byte, 5> answer{};
                co_await client.write_all("hello");
                std::size_t have = 0;
                while (have < answer.size())
                    have += co_await client.read_some(std::span(answer).subspan(have));
                got.append(reinterpret_cast<const char*>(answer.data()), have);
                client.close();
            };
            auto both = [&](rl::task_group& group) -> rl::task<void> {
                group.spawn(rl::detail::run_on(pool[i % 2], echo(accepted.release())));
                group.spawn(talk());
                co_return;
            };
            co_await rl::with_group(both);
        }
    }());
    CHECK(got == "hellohellohellohello");
}

TEST_CASE("a stream that has read ahead is not released", "[across]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    runner r(body);
    bool refused = false, still_there = false;
    r.run([&]() -> rl::task<void> {
        auto listener = rl::net::tcp_listener::bind(rl::net::endpoint("127.0.0.1", 0));
        auto client = co_await rl::net::tcp_stream::connect(listener.local());
        auto accepted = co_await listener.accept();
        co_await client.write_all("first");
        static_cast<void>(co_await accepted.receive());
        co_await client.write_all("second");
        while (!refused) {
            co_await rl::sleep_for(1ms);
            try {
                const int socket = accepted.release();
                accepted = rl::net::tcp_stream(r.home, socket);
                static_cast<void>(co_await accepted.receive());
                co_await client.write_all("again");
            } catch (const std::logic_error&) {
                refused = true;
            }
        }
        auto rest = co_await accepted.receive();
        still_there = rest.size() > 0;
    }());
    CHECK(refused);
    CHECK(still_there);
}
