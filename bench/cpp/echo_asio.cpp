// echo_asio: the same server with Asio's awaitable, as its examples write it: one thread,
// concurrency hint 1, epoll, a buffer for each connection.
#include <asio.hpp>
#include <cstdio>
#include <utility>
#include <vector>

namespace {

using asio::ip::tcp;

asio::awaitable<void> session(tcp::socket socket) {
    std::vector<char> buffer(65536);
    try {
        while (true) {
            const std::size_t got =
                co_await socket.async_read_some(asio::buffer(buffer), asio::use_awaitable);
            co_await asio::async_write(socket, asio::buffer(buffer.data(), got),
                                       asio::use_awaitable);
        }
    } catch (const std::exception&) {  // the end of the stream, or a reset
        co_return;
    }
}

asio::awaitable<void> serve(tcp::acceptor& acceptor) {
    while (true) {
        tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
        socket.set_option(tcp::no_delay(true));
        asio::co_spawn(acceptor.get_executor(), session(std::move(socket)), asio::detached);
    }
}

}  // namespace

int main() {
    asio::io_context context(1);
    tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
    acceptor.listen(1024);
    std::printf("%d\n", acceptor.local_endpoint().port());
    std::fflush(stdout);
    asio::co_spawn(context, serve(acceptor), asio::detached);
    context.run();
}
