// uv_echo: a libuv server that keeps its callbacks and moves onto ringloop's ring.
//
//     uv_echo [PORT]
//
// The echo is libuv's, callbacks and all, and knows nothing of ringloop. What is new is main(): its
// loop is a guest of our scheduler, where a task, which could be anything, says now and then how
// much was echoed. SIGINT ends it.
#include <ringloop/interop/uv.hpp>
#include <ringloop/ringloop.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>

namespace rl = ringloop;
using namespace std::chrono_literals;

namespace {

std::size_t bytes_echoed = 0;

// ---- the program as it was

void check(int result, const char* what) {
    if (result < 0) throw std::runtime_error(std::string(what) + ": " + uv_strerror(result));
}

struct connection {
    uv_tcp_t socket;
    uv_write_t writing;
    char memory[65536];
};

void close_connection(uv_stream_t* stream) {
    uv_close(reinterpret_cast<uv_handle_t*>(stream),
             [](uv_handle_t* closed) { delete static_cast<connection*>(closed->data); });
}

void on_read(uv_stream_t* stream, ssize_t size, const uv_buf_t* from) {
    if (size < 0) return close_connection(stream);
    auto* const self = static_cast<connection*>(stream->data);
    uv_buf_t piece = uv_buf_init(from->base, static_cast<unsigned>(size));
    bytes_echoed += static_cast<std::size_t>(size);
    uv_read_stop(stream);  // one buffer: it is written before the next read
    self->writing.data = self;
    uv_write(&self->writing, stream, &piece, 1, [](uv_write_t* written, int failed) {
        if (uv_is_closing(reinterpret_cast<uv_handle_t*>(written->handle)) != 0) return;
        if (failed != 0) return close_connection(written->handle);
        uv_read_start(
            written->handle,
            [](uv_handle_t* handle, std::size_t, uv_buf_t* into) {
                auto* const owner = static_cast<connection*>(handle->data);
                *into = uv_buf_init(owner->memory, sizeof owner->memory);
            },
            &on_read);
    });
}

void on_connection(uv_stream_t* listener, int failed) {
    if (failed != 0) return;
    auto* const self = new connection;
    uv_tcp_init(listener->loop, &self->socket);
    self->socket.data = self;
    auto* const stream = reinterpret_cast<uv_stream_t*>(&self->socket);
    if (uv_accept(listener, stream) != 0) return close_connection(stream);
    uv_read_start(
        stream,
        [](uv_handle_t* handle, std::size_t, uv_buf_t* into) {
            auto* const owner = static_cast<connection*>(handle->data);
            *into = uv_buf_init(owner->memory, sizeof owner->memory);
        },
        &on_read);
}

std::uint16_t listen(uv_loop_t* loop, uv_tcp_t& listener, int port) {
    sockaddr_in address{};
    check(uv_ip4_addr("127.0.0.1", port, &address), "address");
    check(uv_tcp_init(loop, &listener), "uv_tcp_init");
    listener.data = nullptr;
    check(uv_tcp_bind(&listener, reinterpret_cast<sockaddr*>(&address), 0), "bind");
    check(uv_listen(reinterpret_cast<uv_stream_t*>(&listener), 128, &on_connection), "listen");
    int size = sizeof address;
    check(uv_tcp_getsockname(&listener, reinterpret_cast<sockaddr*>(&address), &size), "name");
    return ntohs(address.sin_port);
}

// ---- its new main()

rl::task<void> serve(int port) {
    uv_loop_t* const loop = uv_default_loop();
    rl::interop::uv_guest guest(loop);
    uv_tcp_t listener;
    std::cout << "listening on 127.0.0.1:" << listen(loop, listener, port) << std::endl;
    try {
        rl::interval ticks(10s);
        while (true) {
            co_await ticks.next();
            std::cerr << bytes_echoed << " bytes echoed\n";
        }
    } catch (const rl::operation_cancelled&) {  // SIGINT
    }
    uv_walk(
        loop,
        [](uv_handle_t* each, void*) {
            if (uv_is_closing(each) != 0) return;
            uv_close(each, [](uv_handle_t* closed) {
                delete static_cast<connection*>(closed->data);  // null: the listener
            });
        },
        nullptr);
    co_await rl::shield(guest.finished());  // the closing callbacks
}

}  // namespace

int main(int count, char** words) try {
    if (count > 2) throw std::invalid_argument("usage: uv_echo [PORT]");
    const int status = rl::run(serve(count == 2 ? std::atoi(words[1]) : 0));
    check(uv_loop_close(uv_default_loop()), "uv_loop_close");
    return status;
} catch (const std::exception& failure) {
    std::cerr << "uv_echo: " << failure.what() << '\n';
    return 1;
}
