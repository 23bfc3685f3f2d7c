// fetch: a native service that awaits aiohttp. Each line that a client sends is a URL; the answer
// is the page's status and size.
//
//     fetch ADDRESS PORT
//
// The sockets of the clients and those of aiohttp are on one ring. A page that takes longer than
// `limit` is given up, and with it the request inside of aiohttp. SIGINT and SIGTERM end it: the
// requests under way are cancelled, then aiohttp's session is closed.
#include <chrono>
#include <iostream>
#include <string>
#include <utility>

#include <ringloop/python.hpp>

#include "lines.hpp"

namespace rl = ringloop;
namespace py = ringloop::py;

namespace {

constexpr std::chrono::seconds limit(5);

rl::task<std::string> answer(py::object client, std::string url) {
    try {
        const auto [status, size] = co_await rl::with_timeout(
            limit, py::await<std::pair<int, std::size_t>>(client.call("get", url)));
        co_return std::to_string(status) + " " + std::to_string(size) + "\n";
    } catch (const py::error& raised) {
        co_return "failed: " + raised.type_name() + "\n";
    } catch (const rl::timed_out&) {
        co_return "failed: it takes too long\n";
    }
}

rl::task<void> session(rl::net::tcp_stream stream, py::object client) {
    auto urls = lines::of(stream);
    while (auto url = co_await urls.next()) {
        const std::string text = co_await answer(client, std::move(*url));
        co_await stream.write_all(text);
    }
}

rl::task<void> serve(rl::net::tcp_listener& listener, const py::object& client) {
    co_await rl::with_group([&](rl::task_group& sessions) -> rl::task<void> {
        while (true)
            sessions.spawn(session(co_await listener.accept(), client), rl::on_error::log);
    });
}

}  // namespace

int main(int count, char** words) try {
    if (count != 3) throw std::invalid_argument("usage: fetch ADDRESS PORT");
    auto app = [words](py::interpreter& python) -> rl::task<void> {
        const py::object client =
            co_await py::await<py::object>(python.import("client").call("open_client"));
        auto listener = lines::listen(words[1], words[2]);
        std::exception_ptr ended;
        try {
            co_await serve(listener, client);
        } catch (...) {  // as a rule a signal
            ended = std::current_exception();
        }
        co_await rl::shield(py::await<void>(client.call("close")));
        std::rethrow_exception(ended);
    };
    py::run_options options;
    options.search_path = {SCRIPTS};
    return py::run(app, options);
} catch (const py::error& raised) {
    std::cerr << raised.formatted();
    return 1;
} catch (const std::exception& failure) {
    std::cerr << "fetch: " << failure.what() << '\n';
    return 1;
}
