// forward: passes TCP connections on to another host.
//
//     forward ADDRESS PORT TARGET_HOST TARGET_PORT
//
// A connection is two pumps in one group. The end of one direction is passed on as an end of that
// direction (a half-close) while the other goes on; a failure of either ends both. Nothing is
// buffered but what is under way: a reader that is slow slows its sender down.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include <ringloop/ringloop.hpp>

#include "serving.hpp"

namespace rl = ringloop;
using namespace std::chrono_literals;

namespace {

constexpr auto connect_limit = 10s;

struct target {
    std::string host;
    std::uint16_t port = 0;
};

rl::task<void> pump(rl::net::tcp_stream& from, rl::net::tcp_stream& to) {
    while (auto chunk = co_await from.receive()) co_await to.write_all(chunk.bytes());
    to.shutdown(rl::net::direction::send);
}

rl::task<void> session(rl::net::tcp_stream client, const target& to) {
    auto server = co_await rl::with_timeout(connect_limit, rl::net::connect(to.host, to.port));
    co_await rl::with_group([&](rl::task_group& both) -> rl::task<void> {
        both.spawn(pump(client, server));
        both.spawn(pump(server, client));
        co_return;
    });
}

rl::task<void> serve(rl::net::endpoint at, target to) {
    auto listener = serving::listen(at);
    co_await rl::with_group([&](rl::task_group& sessions) -> rl::task<void> {
        while (true) sessions.spawn(session(co_await listener.accept(), to), rl::on_error::log);
    });
}

}  // namespace

int main(int count, char** words) try {
    if (count != 5)
        throw std::invalid_argument("usage: forward ADDRESS PORT TARGET_HOST TARGET_PORT");
    return rl::run(serve({words[1], serving::port(words[2])}, {words[3], serving::port(words[4])}));
} catch (const std::exception& failure) {
    std::cerr << "forward: " << failure.what() << '\n';
    return 1;
}
