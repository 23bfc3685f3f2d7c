// interop_costs: what the way between two worlds costs, on one thread. Prints JSON: nanoseconds of
// CPU for each read or timer, by kind, one list of rounds each; the kinds take turns.
//
//     interop_costs [ROUNDS]
#include <sys/socket.h>
#include <time.h>
#include <ringloop/interop/asio.hpp>
#include <ringloop/interop/uv.hpp>
#include <ringloop/ringloop.hpp>

#include <cstdlib>

#include "print_rounds.hpp"

namespace {

namespace rl = ringloop;
using stream = asio::local::stream_protocol::socket;

constexpr int reads = 20'000;
constexpr int timers = 200;

double cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

struct pair {
    stream ours, theirs;
    explicit pair(asio::io_context& io) : ours(io), theirs(io) {
        asio::local::connect_pair(ours, theirs);
    }
};

// A read that finds its byte there, and one that waits for it: the reactor is asked. In a coroutine
// of the world that the token belongs to.
template <class Coroutine, class Token>
Coroutine all_reads(pair& both, bool waits, double& each_ns, Token token) {
    char byte = 'x';
    const double begin_ns = cpu_ns();
    for (int i = 0; i < reads; ++i) {
        if (!waits) both.theirs.send(asio::buffer(&byte, 1));
        if (waits)
            asio::post(both.ours.get_executor(), [&] { both.theirs.send(asio::buffer(&byte, 1)); });
        co_await both.ours.async_read_some(asio::buffer(&byte, 1), token);
    }
    each_ns = (cpu_ns() - begin_ns) / reads;
}

double by_asio(bool waits) {
    asio::io_context io(1);
    pair both(io);
    double each_ns = 0;
    asio::co_spawn(
        io, all_reads<asio::awaitable<void>>(both, waits, each_ns, asio::use_awaitable),
        asio::detached);
    io.run();
    return each_ns;
}

double by_task(bool waits) {
    asio::io_context io(1);
    pair both(io);
    double each_ns = 0;
    rl::interop::asio_host host(io);
    host.spawn(all_reads<rl::task<void>>(both, waits, each_ns, rl::use_task));
    io.run();
    return each_ns;
}

// A timer of a millisecond: each sleep ends with it.
struct ticking {
    uv_timer_t timer;
    int left = timers;
    explicit ticking(uv_loop_t* loop) {
        uv_timer_init(loop, &timer);
        timer.data = this;
        uv_timer_start(&timer, &ticking::fire, 1, 1);
    }
    static void fire(uv_timer_t* handle) {
        if (--static_cast<ticking*>(handle->data)->left == 0)
            uv_close(reinterpret_cast<uv_handle_t*>(handle), nullptr);
    }
};

double by_libuv() {
    uv_loop_t loop;
    uv_loop_init(&loop);
    ticking ticks(&loop);
    const double begin_ns = cpu_ns();
    uv_run(&loop, UV_RUN_DEFAULT);
    const double each_ns = (cpu_ns() - begin_ns) / timers;
    uv_loop_close(&loop);
    return each_ns;
}

rl::task<void> guest_ticks(uv_loop_t* loop, double& each_ns) {
    rl::interop::uv_guest guest(loop);
    ticking ticks(loop);
    const double begin_ns = cpu_ns();
    co_await guest.finished();
    each_ns = (cpu_ns() - begin_ns) / timers;
}

double by_guest() {
    uv_loop_t loop;
    uv_loop_init(&loop);
    double each_ns = 0;
    rl::sync_wait(guest_ticks(&loop, each_ns));
    uv_loop_close(&loop);
    return each_ns;
}

}  // namespace

int main(int count, char** words) {
    const int rounds = count > 1 ? std::atoi(words[1]) : 9;
    bench::rounds_by_kind found;
    for (int i = 0; i < rounds; ++i) {
        found["read_ready_asio"].push_back(by_asio(false));
        found["read_ready_task"].push_back(by_task(false));
        found["read_waits_asio"].push_back(by_asio(true));
        found["read_waits_task"].push_back(by_task(true));
        found["timer_libuv"].push_back(by_libuv());
        found["timer_guest"].push_back(by_guest());
    }
    bench::print_rounds(found);
}
