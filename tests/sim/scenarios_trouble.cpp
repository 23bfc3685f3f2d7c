// Scenarios: peers that vanish, refuse or reset; cancels and time limits at every await.
#include "ringloop/net/ready.hpp"
#include "streams.hpp"

namespace sim {
namespace {

// True if `work` was ended by its time limit. Other failures pass.
task<bool> runs_out(std::chrono::nanoseconds limit, task<void> work) {
    try {
        co_await rl::with_timeout(limit, std::move(work));
    } catch (const rl::timed_out&) {
        co_return true;
    }
    co_return false;
}

// ---- refused: no listener, then one whose backlog is full, then one that accepts

task<void> connect_and_drop(std::uint16_t port) {
    co_await tcp_stream::connect(at(port));
}

task<void> refused(world& w) {
    int number = 0;
    try {
        co_await connect_and_drop(20);
    } catch (const rl::error& failure) {
        number = failure.code().value();
    }
    w.must_if_clean(number == ECONNREFUSED, "a connect without listener is refused");
    auto listener = tcp_listener::bind(w.home, at(20), {.backlog = 1});
    tcp_stream first = co_await tcp_stream::connect(at(20));
    const bool late = co_await runs_out(1ms, connect_and_drop(20));
    w.must_if_clean(late, "a connect to a full backlog waits");
    tcp_stream accepted = co_await listener.accept();
    tcp_stream second = co_await tcp_stream::connect(at(20));
    co_await write_content(second, 21, 0, 5);
    w.must(accepted.native_handle() != second.native_handle(), "two ends, two descriptors");
}
const registered refused_scenario({.name = "refused", .body = refused});

// ---- cancel: each kind of await is stopped while it waits; nothing is lost by it

task<void> receive_once(tcp_stream& stream) {
    const auto chunk = co_await stream.receive();
    static_cast<void>(chunk);
}
task<void> read_once(tcp_stream& stream) {
    std::byte room[10];
    const std::size_t count = co_await stream.read_some(room);
    static_cast<void>(count);
}
task<void> accept_once(tcp_listener& listener) {
    tcp_stream stream = co_await listener.accept();
}
task<void> poll_once(int fd) {
    const auto events = co_await rl::net::ready(fd, POLLIN);
    static_cast<void>(events);
}

task<void> cancel(world& w) {
    auto listener = tcp_listener::bind(w.home, at(22));
    w.must_if_clean(co_await runs_out(1ms, accept_once(listener)), "accept waits");
    tcp_stream client = co_await tcp_stream::connect(at(22));
    tcp_stream server = co_await listener.accept();
    w.must_if_clean(co_await runs_out(1ms, receive_once(client)), "receive waits");
    w.must_if_clean(co_await runs_out(1ms, read_once(client)), "read_some waits");
    w.must_if_clean(co_await runs_out(1ms, poll_once(client.native_handle())), "ready waits");
    w.must_if_clean(co_await runs_out(1ms, write_content(client, 23, 0, 5000)), "write waits");
    co_await write_content(server, 24, 0, 900);
    server.shutdown(rl::net::direction::send);
    sink in{w, 24};
    co_await read_up_to(client, in, SIZE_MAX, true);
    w.must_if_clean(in.seen == 900, "what came after the cancels is complete");
}
const registered cancel_scenario({.name = "cancel", .body = cancel});

// ---- impatient_reader: a time limit on every receive, racing the arrival

task<void> impatient(tcp_stream& stream, sink& in, bool& ended, bool by_lease) {
    const std::size_t before = in.seen;
    co_await read_up_to(stream, in, before + 1, by_lease);
    ended = in.seen == before;
}

task<void> send_haltingly(tcp_listener& listener) {
    tcp_stream stream = co_await listener.accept();
    for (std::size_t sent = 0; sent < 1000; sent += 50) {
        co_await write_content(stream, 25, sent, 50);
        co_await rl::sleep_for(1us * (sent % 150));
    }
}

task<void> impatient_reader(world& w) {
    auto listener = tcp_listener::bind(w.home, at(25));
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(send_haltingly(listener));
        tcp_stream stream = co_await tcp_stream::connect(at(25));
        sink in{w, 25};
        bool ended = false;
        for (unsigned turn = 0; !ended; ++turn) {
            const bool late =
                co_await runs_out(1us * (turn % 70), impatient(stream, in, ended, turn % 2 == 0));
            if (late) co_await rl::sleep_for(1us * (turn % 5));
        }
        w.must_if_clean(in.seen == 1000, "no byte was lost to a time limit");
    });
}
const registered impatient_scenario({.name = "impatient_reader", .body = impatient_reader});

// ---- peer_reset: the network breaks in the middle of a long send, both sides learn it

task<void> write_until_broken(world& w, tcp_stream& stream) {
    try {
        co_await write_content(stream, 26, 0, 50'000);
        w.must(false, "50,000 bytes were sent into a broken stream");
    } catch (const rl::error& failure) {
        const int number = failure.code().value();
        w.must_if_clean(number == ECONNRESET || number == EPIPE, failure.what());
    }
}

task<void> read_until_broken(world& w, tcp_listener& listener) {
    tcp_stream stream = co_await listener.accept();
    w.io.after(3'000'000, [&w, fd = stream.native_handle()] {
        if (const auto socket = w.io.kernel().find(fd)) w.io.kernel().break_stream(*socket);
    });
    sink in{w, 26};
    int number = 0;
    try {
        for (;;) {
            const std::size_t before = in.seen;
            co_await read_up_to(stream, in, before + 1, true);
            if (in.seen == before) break;
            co_await rl::sleep_for(1ms);
        }
    } catch (const rl::error& failure) {
        number = failure.code().value();
    }
    w.must_if_clean(number == ECONNRESET, "the reader learns of the reset");
}

task<void> peer_reset(world& w) {
    auto listener = tcp_listener::bind(w.home, at(26));
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(read_until_broken(w, listener));
        tcp_stream stream = co_await tcp_stream::connect(at(26));
        co_await write_until_broken(w, stream);
    });
}
const registered reset_scenario({.name = "peer_reset", .body = peer_reset});

// ---- gone_mid_send: the client reads a little and closes while the server sends a lot

task<void> send_a_lot(tcp_listener& listener, int& number) {
    tcp_stream stream = co_await listener.accept();
    try {
        co_await write_content(stream, 27, 0, 60'000);
    } catch (const rl::error& failure) {
        number = failure.code().value();
    }
}

task<void> gone_mid_send(world& w) {
    auto listener = tcp_listener::bind(w.home, at(27));
    int number = 0;
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(send_a_lot(listener, number));
        tcp_stream stream = co_await tcp_stream::connect(at(27));
        sink in{w, 27};
        co_await read_up_to(stream, in, 1000, true);
    });
    w.must_if_clean(number == EPIPE || number == ECONNRESET, "the sender learns that it is over");
}
const registered gone_scenario({.name = "gone_mid_send", .body = gone_mid_send});

// ---- rude_server: it closes right after accept; the clients come to their end

task<void> rude_client(world& w) {
    tcp_stream stream = co_await tcp_stream::connect(at(28));
    sink in{w, 28};
    try {
        co_await write_content(stream, 28, 0, 3000);
        co_await read_up_to(stream, in, SIZE_MAX, false);
    } catch (const rl::error& failure) {
        const int number = failure.code().value();
        w.must_if_clean(number == EPIPE || number == ECONNRESET, failure.what());
    }
    w.must(in.seen == 0, "nothing was sent");
}

task<void> rude_server(world& w) {
    auto listener = tcp_listener::bind(w.home, at(28));
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (int i = 0; i < 3; ++i) group.spawn(rude_client(w), rl::on_error::log);
        for (int i = 0; i < 3; ++i) (co_await listener.accept()).close();
    });
}
const registered rude_scenario({.name = "rude_server", .body = rude_server});

// ---- unaccepted: a listener closes with connections waiting in it

task<void> unaccepted(world& w) {
    std::vector<tcp_stream> clients;
    {
        auto listener = tcp_listener::bind(w.home, at(29));
        for (int i = 0; i < 3; ++i) clients.push_back(co_await tcp_stream::connect(at(29)));
        co_await accept_once(listener);
        co_await rl::yield();
    }
    for (tcp_stream& client : clients) {
        sink in{w, 29};
        try {
            co_await read_up_to(client, in, 1, true);
        } catch (const rl::error&) {
            continue;
        }
        w.must(in.seen == 0, "nothing was sent");
    }
}
const registered unaccepted_scenario({.name = "unaccepted", .body = unaccepted});

}  // namespace
}  // namespace sim
