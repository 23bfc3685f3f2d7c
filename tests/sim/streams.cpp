// Helpers of the stream scenarios.
#include "streams.hpp"

namespace sim {

task<void> read_up_to(tcp_stream& stream, sink& into, std::size_t size, bool by_lease) {
    std::byte room[300];
    while (into.seen < size) {
        if (by_lease) {
            const auto chunk = co_await stream.receive();
            if (!chunk) co_return;
            into.take(chunk.bytes());
        } else {
            const std::size_t most = std::min(sizeof room, size - into.seen);
            const std::size_t count = co_await stream.read_some({room, most});
            if (count == 0) co_return;
            into.take({room, count});
        }
    }
}

task<void> write_content(tcp_stream& stream, unsigned id, std::size_t from, std::size_t size) {
    const auto bytes = world::content(id, from, size);
    co_await stream.write_all(bytes);
}

task<void> echo_session(tcp_stream stream) {
    while (auto chunk = co_await stream.receive()) co_await stream.write_all(chunk.bytes());
}

task<void> serve_echo(tcp_listener& listener, rl::task_group& group) {
    for (;;) group.spawn(echo_session(co_await listener.accept()), rl::on_error::log);
}

task<void> beside(task<void> server, task<void> clients) {
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        group.spawn(std::move(server));
        co_await std::move(clients);
        group.cancel();
    });
}

}  // namespace sim
