// What the stream scenarios share: writing and checking numbered content, servers, clients.
#pragma once

#include <chrono>
#include <string>

#include "harness.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/tcp_listener.hpp"
#include "ringloop/net/tcp_stream.hpp"
#include "ringloop/sleep.hpp"
#include "ringloop/task_group.hpp"
#include "ringloop/when.hpp"

namespace sim {

using namespace std::chrono_literals;
using rl::task;
using rl::net::endpoint;
using rl::net::tcp_listener;
using rl::net::tcp_stream;

inline endpoint at(std::uint16_t port) {
    return endpoint("127.0.0.1", port);
}

// Checks what arrives on stream `id` byte for byte.
struct sink {
    world& w;
    unsigned id;
    std::size_t seen = 0;
    void take(std::span<const std::byte> bytes) {
        w.must_match(id, seen, bytes);
        seen += bytes.size();
    }
};

// Reads until `size` bytes have come or the stream ends; by lease or into own memory.
task<void> read_up_to(tcp_stream& stream, sink& into, std::size_t size, bool by_lease);
task<void> write_content(tcp_stream& stream, unsigned id, std::size_t from, std::size_t size);
task<void> echo_session(tcp_stream stream);
// Accepts for ever; each session's failure ends it alone.
task<void> serve_echo(tcp_listener& listener, rl::task_group& group);
// Runs `clients` beside `server`, which is stopped when they have ended.
task<void> beside(task<void> server, task<void> clients);

}  // namespace sim
