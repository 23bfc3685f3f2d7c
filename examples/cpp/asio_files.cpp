// asio_files: an Asio program that has ringloop read its files.
//
//     asio_files FOLDER [PORT]
//
// A client sends a file's name and a newline, and gets the file, as far as one read goes, and the
// end of the connection. Sockets, signals and coroutines are Asio's; files, which Asio has no
// operations for on epoll, are read by a task on the ring, hosted by the same io_context. SIGINT
// ends it.
#include <ringloop/interop/asio.hpp>
#include <ringloop/ringloop.hpp>

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace rl = ringloop;
using asio::ip::tcp;

namespace {

rl::task<std::vector<std::byte>> contents(std::filesystem::path name) {
    const rl::fs::file file = co_await rl::fs::open(name);
    std::vector<std::byte> data(1 << 20);
    data.resize(co_await file.read_at(data, 0));
    co_return data;
}

asio::awaitable<void> session(rl::interop::asio_host& host, std::filesystem::path folder,
                              tcp::socket socket) {
    std::string line;
    try {
        co_await asio::async_read_until(socket, asio::dynamic_buffer(line, 4096), '\n',
                                        asio::use_awaitable);
        const std::filesystem::path name = line.substr(0, line.find('\n'));
        // Where the connection's coroutine is cancelled, the task is, too.
        const auto data = co_await rl::interop::spawn(host, contents(folder / name.filename()),
                                                      asio::use_awaitable);
        co_await asio::async_write(socket, asio::buffer(data), asio::use_awaitable);
    } catch (const std::system_error& failure) {
        std::cerr << failure.what() << '\n';
    }
}

asio::awaitable<void> serve(rl::interop::asio_host& host, std::filesystem::path folder,
                            tcp::acceptor& acceptor) {
    while (true)
        asio::co_spawn(host.context(),
                       session(host, folder, co_await acceptor.async_accept(asio::use_awaitable)),
                       asio::detached);
}

}  // namespace

int main(int count, char** words) try {
    if (count != 2 && count != 3) throw std::invalid_argument("usage: asio_files FOLDER [PORT]");
    const auto port = static_cast<std::uint16_t>(count == 3 ? std::stoi(words[2]) : 0);
    asio::io_context io;
    rl::interop::asio_host host(io);
    tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), port});
    asio::signal_set signals(io, SIGINT, SIGTERM);
    signals.async_wait([&](std::error_code, int) { io.stop(); });
    asio::co_spawn(io, serve(host, words[1], acceptor), asio::detached);
    std::cout << "listening on 127.0.0.1:" << acceptor.local_endpoint().port() << std::endl;
    io.run();
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "asio_files: " << failure.what() << '\n';
    return 1;
}
