// What is still there when its scheduler ends: objects of a host's, which nobody has dropped yet.
#include <fcntl.h>
#include <signal.h>

#include <catch2/catch.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ringloop/ringloop.hpp"
#include "support/bodies.hpp"

namespace rl = ringloop;

namespace {

struct belongings {
    std::vector<rl::net::tcp_stream> streams;
    std::vector<rl::net::tcp_listener> listeners;
    std::optional<rl::net::udp_socket> datagrams;
    std::optional<rl::pipe_ends> pipe;
    rl::fs::file file;
    rl::process child;
};

rl::task<void> open_all(belongings& all) {
    all.listeners.push_back(rl::net::tcp_listener::bind({"127.0.0.1", 0}));
    all.streams.push_back(co_await rl::net::tcp_stream::connect(all.listeners[0].local()));
    all.streams.push_back(co_await all.listeners[0].accept());
    co_await all.streams[0].write_all("a receive stays armed, and a chunk is there");
    {
        const auto first = co_await all.streams[1].receive();
        CHECK(first);
    }
    co_await all.streams[0].write_all("unread");
    all.datagrams = rl::net::udp_socket::bind({"127.0.0.1", 0});
    all.pipe = rl::make_pipe();
    all.file = co_await rl::fs::open("/tmp", O_RDONLY | O_DIRECTORY);
    for (int turns = 0; turns < 10; ++turns) co_await rl::yield();
}

rl::task<void> turn_twice() {
    co_await rl::yield();
    co_await rl::yield();
}

}  // namespace

TEST_CASE("what is left over when its scheduler ends is closed by then and refuses to be used",
          "[leftover]") {
    // Its destructor used to close through the scheduler that had gone.
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    CAPTURE(body);
    belongings all;
    {
        const rl::testing::ledger before;
        rl::scheduler home(rl::testing::make_body(body));
        rl::sync_wait(home, open_all(all));
        CHECK(all.streams[1]);
    }
    for (auto& stream : all.streams) {
        CHECK_FALSE(stream);
        CHECK_THROWS_AS(stream.receive(), std::logic_error);
    }
    CHECK_THROWS_AS(all.listeners[0].accept(), std::logic_error);
    CHECK_FALSE(*all.datagrams);
    CHECK_THROWS_AS(all.datagrams->local(), std::logic_error);
    CHECK_FALSE(all.pipe->reader);
    CHECK_FALSE(all.pipe->writer);
    CHECK_FALSE(all.file);
    CHECK_THROWS_AS(all.file.status(), std::logic_error);
    belongings elsewhere = std::move(all);  // and all of it may move and end
}

TEST_CASE("a process whose scheduler ends is killed and collected", "[leftover]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    belongings all;
    int pid = 0;
    {
        rl::scheduler home(rl::testing::make_body(body));
        const auto scenario = [&]() -> rl::task<void> {
            all.child = rl::process::spawn({"sleep", "3600"});
            pid = all.child.id();
            co_return;
        };
        rl::sync_wait(home, scenario());
    }
    CHECK(::kill(pid, 0) == -1);
    CHECK_THROWS_AS(all.child.id(), std::logic_error);
}

TEST_CASE("a stream that ends on another thread is closed by its own, which may be asleep",
          "[leftover]") {
    // Its destructor used to take back the receive from a driver that another thread was in.
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const rl::testing::ledger before;
    rl::scheduler home(rl::testing::make_body(body));
    belongings all;
    rl::sync_wait(home, open_all(all));
    rl::net::tcp_stream near = std::move(all.streams[0]);
    const rl::net::endpoint listened = all.listeners[0].local();
    std::thread elsewhere;
    bool ended = false;
    const auto scenario = [&]() -> rl::task<void> {
        elsewhere = std::thread([&] {
            all.streams.clear();  // with a receive armed, and an unread chunk
            all.listeners.clear();
        });
        std::error_code failure;  // a reset, since that chunk was not read
        for (auto chunk = co_await near.receive(failure); chunk;) {
            chunk = co_await near.receive(failure);
        }
        ended = true;
    };
    rl::sync_wait(home, scenario());
    elsewhere.join();
    CHECK(ended);
    rl::sync_wait(home, turn_twice());
    CHECK_THROWS(rl::sync_wait(home, rl::net::tcp_stream::connect(listened)));
}
