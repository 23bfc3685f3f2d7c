// The three ways in which Asio's I/O objects and a task come together: each test of use_task runs
// in all of them.
#pragma once

#include <ringloop/interop/asio.hpp>

#include <ostream>
#include <string_view>
#include <thread>
#include <vector>

#include "ringloop/ringloop.hpp"
#include "support/bodies.hpp"

namespace ringloop::testing {

// False where Asio is built for io_uring (test_kernel) and that is denied.
inline bool asio_can_wait() {
#if defined(ASIO_HAS_IO_URING)
    return ring_works_here();
#else
    return true;
#endif
}

enum class way { host, thread, context };

// An asio_context is left out on Asio's io_uring: at its end both threads of Asio 1.22's wait for
// the same completion, and one of them for good.
inline std::vector<way> ways() {
#if defined(ASIO_HAS_IO_URING)
    return {way::host, way::thread};
#else
    return {way::host, way::thread, way::context};
#endif
}

inline std::ostream& operator<<(std::ostream& out, way which) {
    constexpr std::string_view names[] = {"host", "thread", "context"};
    return out << names[static_cast<int>(which)];
}

// make(executor) is a task; its value.
template <class Make>
auto run_by(way which, Make make) {
    if (which == way::host) {
        asio::io_context io;
        return interop::run(io, make(asio::any_io_executor(io.get_executor())));
    }
    if (which == way::thread) {
        asio::io_context io;
        auto work = asio::make_work_guard(io);
        std::jthread runner([&] { io.run(); });
        struct end {  // also if it throws
            decltype(work)& to_reset;
            ~end() { to_reset.reset(); }
        } const at_end{work};
        return sync_wait(make(asio::any_io_executor(io.get_executor())));
    }
    scheduler home;
    interop::asio_context context(home);
    return sync_wait(home, make(asio::any_io_executor(context.get_executor())));
}

struct pair {
    asio::ip::tcp::socket ours;
    asio::ip::tcp::socket theirs;
    explicit pair(const asio::any_io_executor& executor) : ours(executor), theirs(executor) {}
};

inline task<int> accept(asio::ip::tcp::acceptor& from, asio::ip::tcp::socket& into) {
    into = co_await from.async_accept(use_task);
    co_return 0;
}

inline task<int> connect(asio::ip::tcp::acceptor& to, asio::ip::tcp::socket& from) {
    co_await from.async_connect(to.local_endpoint(), use_task);
    co_return 0;
}

inline task<void> join(pair& both) {
    const asio::ip::tcp::endpoint anywhere(asio::ip::address_v4::loopback(), 0);
    asio::ip::tcp::acceptor acceptor(both.ours.get_executor(), anywhere);
    co_await when_all(accept(acceptor, both.theirs), connect(acceptor, both.ours));
}

}  // namespace ringloop::testing
