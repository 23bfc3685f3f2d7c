// Targets: the books of a driver, by any order of calls; a stream between two coroutines, by any
// program and with faults.
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "ringloop/net/tcp_listener.hpp"
#include "ringloop/net/tcp_stream.hpp"
#include "simulated.hpp"

namespace fuzz {
namespace {

// ---- the driver: each operation ends once, and only when it has the driver's last completion

struct tracked : rl::operation {
    tracked() : operation(&tracked::note) {}
    static void note(operation& op, const rl::completion& c) noexcept {
        auto& self = static_cast<tracked&>(op);
        must(self.under_way, "a completion comes for who has submitted");
        must(op.in_flight() == c.more, "it is in flight until its last completion");
        if (!c.more) self.under_way = false;
        if (c.buffer != rl::no_buffer) self.leased->push_back(c.buffer);
        if (op.code == rl::op_code::accept && c.result >= 0) self.made->push_back(c.result);
    }
    std::vector<rl::buffer_id>* leased = nullptr;
    std::vector<int>* made = nullptr;
    bool under_way = false;
    std::array<std::byte, 16> room{};
    iovec piece{};
    msghdr message{};
};

struct driver_world {
    explicit driver_world(bytes data) : in(data) {
        rl::testing::fake_config config;
        config.driver.buffer_count = 4;
        config.driver.buffer_size = 16;
        config.driver.submission_entries = static_cast<unsigned>(1 + in.below(4));
        config.driver.completion_entries = static_cast<unsigned>(1 + in.below(4));
        config.kernel.socket_buffer = 32;
        config.random = {
            .seed = in.word(), .faults = in.byte(), .latencies = in.byte(), .disorder = in.byte()};
        io = rl::testing::make_fake_driver(config);
        for (tracked& op : operations) {
            op.leased = &leased;
            op.made = &sockets;
        }
        address.sin_family = AF_INET;
        address.sin_port = htons(80);
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        listener = io->make_socket(AF_INET, SOCK_STREAM, 0);
        if (listener < 0) return;
        sockets.push_back(listener);
        io->bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address);
        io->listen(listener, 4);
    }
    int some_socket() { return sockets.empty() ? -1 : sockets[in.below(sockets.size())]; }
    void submit(tracked& op);
    void close_one();

    choices in;
    std::unique_ptr<rl::testing::fake_driver> io;
    sockaddr_in address{};
    int listener = -1;
    std::vector<int> sockets;
    std::vector<rl::buffer_id> leased;
    std::array<tracked, 8> operations;
};

void driver_world::submit(tracked& op) {
    if (op.in_flight()) return;
    const int socket = some_socket();
    switch (in.below(7)) {
        case 0:
            op.prepare_nop();
            break;
        case 1:
            op.prepare_accept(listener, in.below(2) != 0);
            break;
        case 2: {
            const int made = io->make_socket(AF_INET, SOCK_STREAM, 0);
            if (made >= 0) sockets.push_back(made);
            op.prepare_connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address);
            break;
        }
        case 3:
            op.prepare_receive(socket, in.below(2) != 0);
            break;
        case 4:
            op.prepare_receive_into(socket, op.room.data(), op.room.size());
            break;
        case 5:
            op.piece = {op.room.data(), op.room.size()};
            op.message = {};
            op.message.msg_iov = &op.piece;
            op.message.msg_iovlen = 1;
            op.prepare_send(socket, &op.message);
            break;
        default:
            op.prepare_poll(socket, in.below(2) != 0 ? POLLIN : POLLOUT, in.below(2) != 0);
    }
    op.under_way = true;
    io->submit(op);
}

void driver_world::close_one() {
    if (sockets.empty()) return;
    const auto place = sockets.begin() + static_cast<std::ptrdiff_t>(in.below(sockets.size()));
    const int fd = *place;
    for (tracked& op : operations)
        if (op.fd == fd) io->retire(op);
    if (const auto still = std::find(sockets.begin(), sockets.end(), fd); still != sockets.end())
        sockets.erase(still);
    io->close(fd);
}

void run_driver(bytes data) {
    driver_world w(data);
    for (int steps = 0; !w.in.empty() && steps < 1000; ++steps) {
        tracked& op = w.operations[w.in.below(w.operations.size())];
        switch (w.in.below(10)) {
            case 0:
            case 1:
            case 2:
                w.submit(op);
                break;
            case 3:
                w.io->cancel(op);
                break;
            case 4:
                w.io->retire(op);
                must(!op.in_flight() && !op.under_way, "retire() returns after the end");
                break;
            case 5:
                w.io->wait({.deadline_ns = w.io->now_ns() + w.in.byte() * 10'000});
                break;
            case 6:
                w.io->dispatch(rl::phase::native, w.in.below(4));
                break;
            case 7:
                if (w.leased.empty()) break;
                w.io->release_buffer(w.leased.back());
                w.leased.pop_back();
                break;
            case 8:
                w.close_one();
                break;
            default:
                w.io->poll();
        }
        must(w.io->leased_buffers() >= w.leased.size(), "what is on loan is counted");
    }
    w.io->stop_faults();
    w.io->retire_all();
    for (const rl::buffer_id id : w.leased) w.io->release_buffer(id);
    for (const int fd : w.sockets) w.io->close(fd);
    must(w.io->in_flight() == 0 && w.io->leased_buffers() == 0,
         "nothing is left in flight or lent");
    must(w.io->undelivered(rl::phase::native) == 0, "nothing is left to deliver");
    must(w.io->counters().stale == 0 && w.io->violations().empty(), "no rule of memory is broken");
    must(w.io->kernel().open_descriptors() == 0, "every descriptor is closed");
}
const registered driver_books("driver_books", run_driver);

// ---- streams: what is read is a prefix of what was written, whatever happens

struct stream_world {
    explicit stream_world(bytes data) : in(data) {}
    choices in;
    std::size_t written = 0;  // handed to writes, also to those that failed
    std::size_t offered = 0;  // with what a write_some() has that goes on
    std::size_t read = 0;
};

std::byte content(std::size_t at) {
    return static_cast<std::byte>(at * 131 + at / 256);
}

task<void> write_piece(stream_world& w, rl::net::tcp_stream& stream, std::size_t size, bool all) {
    std::vector<std::byte> piece(size);
    for (std::size_t i = 0; i < size; ++i) piece[i] = content(w.written + i);
    w.offered = w.written + size;  // the reader may have it before the writer goes on
    if (all) {
        w.written += size;
        co_await stream.write_all(piece);
    } else {
        w.written += co_await stream.write_some(piece);
    }
}

task<void> write_program(stream_world& w, rl::net::tcp_stream stream) {
    for (int n = 0; n < 40 && !w.in.empty(); ++n) {
        const std::size_t what = w.in.below(4);
        if (what < 2)
            co_await write_piece(w, stream, 1 + w.in.byte() * (what + 1), w.in.below(2) != 0);
        else if (what == 2)
            co_await rl::sleep_for(std::chrono::nanoseconds(w.in.byte() * 1000));
        else
            co_await rl::yield();
    }
}

task<void> read_piece(stream_world& w, rl::net::tcp_stream& stream, bool& over) {
    std::array<std::byte, 100> room{};
    const auto check = [&w](std::span<const std::byte> seen) {
        for (const std::byte b : seen) must(b == content(w.read++), "what is read was written");
    };
    if (w.in.below(2) != 0) {
        const auto chunk = co_await stream.receive();
        over = !chunk;
        check(chunk.bytes());
    } else {
        const std::size_t count = co_await stream.read_some({room.data(), 1 + w.in.below(100)});
        over = count == 0;
        check({room.data(), count});
    }
}

task<void> read_program(stream_world& w, rl::net::tcp_listener& listener) {
    rl::net::tcp_stream stream = co_await listener.accept();
    for (bool over = false; !over;) {
        const auto limit = std::chrono::nanoseconds(1000 + w.in.byte() * 1000);
        try {
            if (w.in.below(4) == 0)
                co_await rl::with_timeout(limit, read_piece(w, stream, over));
            else
                co_await read_piece(w, stream, over);
        } catch (const rl::timed_out&) {
            continue;
        }
        must(w.read <= w.offered, "nothing is read that was not written");
    }
}

task<void> converse(stream_world& w) {
    const rl::net::endpoint at("127.0.0.1", 80);
    auto listener = rl::net::tcp_listener::bind(at);
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(read_program(w, listener));
        co_await write_program(w, co_await rl::net::tcp_stream::connect(at));
    });
}

const registered streams("streams", [](bytes data) {
    stream_world w(data);
    const rl::testing::chaos random{.seed = w.in.word(),
                                    .faults = w.in.byte() % 64u,
                                    .latencies = w.in.byte(),
                                    .disorder = w.in.byte(),
                                    .harmless_only = w.in.below(2) != 0};
    try {
        simulate(converse(w), random);
        if (random.harmless_only) must(w.read == w.written, "everything arrives");
    } catch (const rl::error&) {
        must(!random.harmless_only, "no fault that may be met shows");
    } catch (const rl::operation_cancelled&) {
        must(!random.harmless_only, "nobody has stopped it");
    }
});

}  // namespace
}  // namespace fuzz
