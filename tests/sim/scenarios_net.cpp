// Scenarios: connections that behave.
#include "streams.hpp"

namespace sim {
namespace {

// ---- echo: three messages of different sizes there and back, on two connections at once

task<void> echo_client(world& w, std::uint16_t port, unsigned id, bool by_lease) {
    tcp_stream stream = co_await tcp_stream::connect(at(port));
    sink back{w, id};
    std::size_t sent = 0;
    for (const std::size_t size : {1U, 700U, 1500U}) {
        co_await write_content(stream, id, sent, size);
        sent += size;
        co_await read_up_to(stream, back, sent, by_lease);
        w.must_if_clean(back.seen == sent, "the echo is complete");
        if (back.seen < sent) co_return;
    }
    stream.shutdown(rl::net::direction::send);
    co_await read_up_to(stream, back, sent + 1, by_lease);
    w.must(back.seen == sent, "nothing follows what was echoed");
}

task<void> echo(world& w) {
    auto listener = tcp_listener::bind(w.home, at(7));
    co_await rl::with_group([&](rl::task_group& servers) -> task<void> {
        co_await beside(serve_echo(listener, servers), [](world& x) -> task<void> {
            co_await rl::with_group([&](rl::task_group& clients) -> task<void> {
                clients.spawn(echo_client(x, 7, 1, true));
                clients.spawn(echo_client(x, 7, 2, false));
                co_return;
            });
        }(w));
    });
}
const registered echo_scenario({.name = "echo", .body = echo});
// The same through a completion queue that overflows and a submission queue that fills up.
const registered narrow_scenario({.name = "echo_through_narrow_queues",
                                  .body = echo,
                                  .configure = [](rl::testing::fake_config& config) {
                                      config.driver.submission_entries = 2;
                                      config.driver.completion_entries = 2;
                                  }});

// ---- accept_storm: more connections than the backlog holds, each gone again at once

task<void> count_session(world& w, tcp_stream stream, std::size_t& bytes) {
    sink in{w, 3};
    co_await read_up_to(stream, in, 100, true);
    bytes += in.seen;
}

task<void> storm_client() {
    tcp_stream stream = co_await tcp_stream::connect(at(8));
    co_await write_content(stream, 3, 0, 10);
}

task<void> accept_storm(world& w) {
    constexpr std::size_t connections = 20;
    auto listener = tcp_listener::bind(w.home, at(8), {.backlog = 4});
    std::size_t bytes = 0;
    co_await rl::with_group([&](rl::task_group& clients) -> task<void> {
        for (std::size_t i = 0; i < connections; ++i)
            clients.spawn(storm_client(), rl::on_error::log);
        co_await rl::with_group([&](rl::task_group& sessions) -> task<void> {
            for (std::size_t i = 0; i < connections; ++i)
                sessions.spawn(count_session(w, co_await listener.accept(), bytes),
                               rl::on_error::log);
        });
    });
    w.must_if_clean(bytes == connections * 10, "every connection was served");
}
const registered storm_scenario({.name = "accept_storm", .body = accept_storm});

// ---- half_close: the question ends, the answer still comes

task<void> answer(world& w, tcp_listener& listener) {
    tcp_stream stream = co_await listener.accept();
    sink question{w, 4};
    co_await read_up_to(stream, question, SIZE_MAX, true);
    w.must_if_clean(question.seen == 1500, "the question is complete");
    co_await write_content(stream, 5, 0, 3000);
}

task<void> half_close(world& w) {
    auto listener = tcp_listener::bind(w.home, at(9));
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(answer(w, listener));
        tcp_stream stream = co_await tcp_stream::connect(at(9));
        w.must(stream.local().port() != 0, "a connected socket has a port");
        co_await write_content(stream, 4, 0, 1500);
        stream.shutdown(rl::net::direction::send);
        sink in{w, 5};
        co_await read_up_to(stream, in, SIZE_MAX, false);
        w.must_if_clean(in.seen == 3000, "the answer is complete");
    });
}
const registered half_close_scenario({.name = "half_close", .body = half_close});

// ---- slow_reader: a large send against a peer that takes its time; both ends on one scheduler

task<void> read_slowly(world& w, tcp_listener& listener, std::size_t size) {
    tcp_stream stream = co_await listener.accept();
    sink in{w, 6};
    std::byte room[400];
    for (;;) {
        co_await rl::sleep_for(1ms);
        const std::size_t count = co_await stream.read_some(room);
        if (count == 0) break;
        in.take({room, count});
    }
    w.must_if_clean(in.seen == size, "everything arrived");
}

task<void> slow_reader(world& w) {
    constexpr std::size_t size = 20'000;
    auto listener = tcp_listener::bind(w.home, at(10));
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(read_slowly(w, listener, size));
        tcp_stream stream = co_await tcp_stream::connect(at(10));
        const auto bytes = world::content(6, 0, size);
        for (std::size_t sent = 0; sent < size / 2;)
            sent += co_await stream.write_some({bytes.data() + sent, size / 2 - sent});
        co_await stream.write_all({bytes.data() + size / 2, size - size / 2});
    });
}
const registered slow_scenario({.name = "slow_reader", .body = slow_reader});

// ---- starvation: more streams than receive buffers, everything complete all the same

task<void> talk(unsigned id, std::size_t size) {
    tcp_stream stream = co_await tcp_stream::connect(at(11));
    for (std::size_t sent = 0; sent < size; sent += 100) {
        co_await write_content(stream, id, sent, 100);
        co_await rl::yield();
    }
}

task<void> hold_while_reading(tcp_stream stream, std::size_t& total) {
    while (const auto chunk = co_await stream.receive()) {
        total += chunk.size();
        co_await rl::sleep_for(50us);  // the lease is held: others starve
    }
}

task<void> starve(world& w, std::size_t connections, std::size_t size) {
    auto listener = tcp_listener::bind(w.home, at(11));
    std::size_t total = 0;
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (std::size_t i = 0; i < connections; ++i) group.spawn(talk(7, size));
        co_await rl::with_group([&](rl::task_group& readers) -> task<void> {
            for (std::size_t i = 0; i < connections; ++i)
                readers.spawn(hold_while_reading(co_await listener.accept(), total));
        });
    });
    w.must_if_clean(total == connections * size, "every stream is complete");
}

task<void> starvation(world& w) {
    return starve(w, 8, 300);
}
task<void> thousand_connections(world& w) {
    return starve(w, 1000, 200);
}
const registered starvation_scenario({.name = "starvation",
                                      .body = starvation,
                                      .configure = [](rl::testing::fake_config& config) {
                                          config.driver.buffer_count = 2;
                                          config.driver.buffer_size = 64;
                                      }});
const registered thousand_scenario({.name = "thousand_connections",
                                    .body = thousand_connections,
                                    .configure =
                                        [](rl::testing::fake_config& config) {
                                            config.driver.buffer_count = 4;
                                            config.driver.buffer_size = 64;
                                            config.driver.completion_entries = 256;
                                            config.kernel.socket_buffer = 512;
                                        },
                                    .random = false,
                                    .exhaust = false});

}  // namespace
}  // namespace sim
