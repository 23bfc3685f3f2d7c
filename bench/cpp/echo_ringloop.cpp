// echo_ringloop: the echo server that the benchmark judges, written as any user would write it.
//
// Prints its port, serves until it is told to stop. The argument, if any, is the backend.
#include <cstdio>
#include <utility>

#include "ringloop/ringloop.hpp"

namespace rl = ringloop;

namespace {

rl::task<void> session(rl::net::tcp_stream stream) {
    while (auto chunk = co_await stream.receive()) co_await stream.write_all(chunk.bytes());
}

rl::task<void> serve() {
    auto listener = rl::net::tcp_listener::bind({"127.0.0.1", 0});
    std::printf("%d\n", listener.local().port());
    std::fflush(stdout);
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        while (true) group.spawn(session(co_await listener.accept()), rl::on_error::log);
    });
}

}  // namespace

int main(int count, char** arguments) {
    rl::driver_config config;
    if (count > 1) config.choice = rl::parse_backend(arguments[1]);
    return rl::run(serve(), config);
}
