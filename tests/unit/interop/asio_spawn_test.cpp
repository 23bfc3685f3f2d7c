// Our tasks in Asio's programs: the host, spawn(), and the executor.
#include <asio/experimental/awaitable_operators.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>

#include "support/ledger.hpp"
#include "unit/interop/asio_ways.hpp"

namespace ringloop::testing {
namespace {

using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

static_assert(asio::execution::is_executor<interop::asio_executor>::value);
static_assert(asio::is_executor<interop::asio_executor>::value);
static_assert(std::is_constructible_v<asio::any_io_executor, interop::asio_executor>);

struct marks {
    int cancelled = 0;
    int done = 0;
};

task<int> slow(std::chrono::nanoseconds time, marks& seen) {
    try {
        co_await sleep_for(time);
    } catch (const operation_cancelled&) {
        ++seen.cancelled;
        throw;
    }
    ++seen.done;
    co_return seen.done;
}

task<void> broken() {
    co_await yield();
    throw std::domain_error("from a task");
}

template <class There>
asio::awaitable<void> awaits(There& there, marks& seen, std::string& heard) {
    seen.done += co_await interop::spawn(there, slow(1ms, seen), asio::use_awaitable) == 1 ? 10 : 0;
    try {
        co_await interop::spawn(there, broken(), asio::use_awaitable);
    } catch (const std::domain_error& failure) {
        heard = failure.what();
    }
    asio::steady_timer timer(co_await asio::this_coro::executor, 2ms);
    co_await (interop::spawn(there, slow(1h, seen), asio::use_awaitable) ||
              timer.async_wait(asio::use_awaitable));
    seen.done += 100;
}

TEST_CASE("a coroutine of Asio's awaits tasks of its host, their errors, and cancels them") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    asio::io_context io;
    interop::asio_host host(io);
    marks seen;
    std::string heard;
    asio::co_spawn(io, awaits(host, seen, heard), asio::detached);
    io.run();  // returns: nothing is left
    CHECK(seen.done == 111);
    CHECK(seen.cancelled == 1);
    CHECK(heard == "from a task");
}

TEST_CASE("a coroutine of Asio's awaits tasks of another thread's scheduler") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    scheduler_pool pool(scheduler_pool_options{.threads = 1});
    asio::io_context io;
    marks seen;
    std::string heard;
    asio::co_spawn(io, awaits(pool[0], seen, heard), asio::detached);
    io.run();
    CHECK(seen.done == 111);
    CHECK(seen.cancelled == 1);
    CHECK(heard == "from a task");
}

TEST_CASE("any token takes a task: a function, a future, a bound cancellation slot") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    asio::io_context io;
    interop::asio_host host(io);
    marks seen;
    int called_with = 0;
    interop::spawn(host, slow(1us, seen), [&](std::exception_ptr failure, int value) {
        if (!failure) called_with = value;
    });
    std::future<int> future = interop::spawn(host, slow(1ms, seen), asio::use_future);
    asio::cancellation_signal signal;
    std::exception_ptr stopped;
    interop::spawn(host, slow(1h, seen),
                   asio::bind_cancellation_slot(
                       signal.slot(), [&](std::exception_ptr failure, int) { stopped = failure; }));
    asio::steady_timer timer(io, 3ms);
    timer.async_wait([&](std::error_code) { signal.emit(asio::cancellation_type::total); });
    io.run();
    CHECK(called_with == 1);
    CHECK(future.get() == 2);
    REQUIRE(stopped);
    try {
        std::rethrow_exception(stopped);
    } catch (const std::system_error& failure) {
        CHECK(failure.code() == asio::error::operation_aborted);
    }
}

TEST_CASE("what a handler throws leaves by io.run()") {
    if (!asio_can_wait()) return;
    asio::io_context io;
    interop::asio_host host(io);
    marks seen;
    interop::spawn(host, slow(1us, seen),
                   [](std::exception_ptr, int) { throw std::domain_error("from a handler"); });
    CHECK_THROWS_WITH(io.run(), "from a handler");
}

task<int> everything(asio::any_io_executor executor) {
    net::tcp_listener listener = net::tcp_listener::bind({"127.0.0.1", 0});
    const auto server = [](net::tcp_listener& from) -> task<int> {
        auto peer = co_await from.accept();
        auto chunk = co_await peer.receive();
        co_await peer.write_all(chunk.bytes());
        co_return 0;
    };
    // Asio's socket and ours, over one loop.
    const auto client = [](asio::any_io_executor by, std::uint16_t port) -> task<int> {
        asio::ip::tcp::socket socket(by);
        co_await socket.async_connect({asio::ip::address_v4::loopback(), port}, use_task);
        co_await asio::async_write(socket, asio::buffer("12345", 5), use_task);
        char memory[5];
        co_return static_cast<int>(
            co_await asio::async_read(socket, asio::buffer(memory), use_task));
    };
    const auto [none, size] =
        co_await when_all(server(listener), client(executor, listener.local().port()));
    co_return size + co_await offload([] { return 10; });
}

TEST_CASE("tasks use the ring, other threads and Asio in one program") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    CHECK(run_by(which, everything) == 15);
}

TEST_CASE("a hosted task that is spawned, and one posted by another thread, keep io.run() going") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    asio::io_context io;
    interop::asio_host host(io);
    marks seen;
    const auto sleeper = [](marks& into) -> task<void> { co_await slow(1ms, into); };
    host.spawn(sleeper(seen));
    io.run();
    CHECK(seen.done == 1);
    io.restart();
    host.keep();
    std::jthread other([&] {
        spawn(host.native(), slow(1ms, seen)).get();
        asio::post(io, [&] { host.let_go(); });
    });
    io.run();
    CHECK(seen.done == 2);
}

TEST_CASE("the end of a host stops its tasks") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    marks seen;
    asio::io_context io;
    {
        interop::asio_host host(io);
        const auto both = [](asio::io_context& by, marks& into) -> task<void> {
            asio::steady_timer timer(by, 1h);
            try {
                co_await timer.async_wait(use_task);
            } catch (const operation_cancelled&) {
                ++into.cancelled;
            }
            co_await slow(1h, into);
        };
        host.spawn(both(io, seen));
        io.poll();
    }
    CHECK(seen.cancelled == 2);
}

TEST_CASE("io.stop() asks the task of run() to stop") {
    if (!asio_can_wait()) return;
    asio::io_context io;
    marks seen;
    asio::steady_timer timer(io, 1ms);
    timer.async_wait([&](std::error_code) { io.stop(); });
    CHECK_THROWS_AS(interop::run(io, slow(1h, seen)), operation_cancelled);
    CHECK(seen.cancelled == 1);
}

asio::awaitable<void> hops(scheduler& home, int& right) {
    for (int i = 0; i < 100; ++i) {
        co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
        right += scheduler::current() == &home ? 1 : 0;
    }
}

TEST_CASE("coroutines of Asio's run on a scheduler by its executor") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    scheduler home;
    interop::asio_context context(home);
    int right = 0;
    const auto work = [&]() -> task<void> {
        co_await asio::co_spawn(context.get_executor(), hops(home, right), use_task);
    };
    sync_wait(home, work());
    CHECK(right == 100);
}

TEST_CASE("what was submitted and did not run goes with its context") {
    if (!asio_can_wait()) return;
    const auto owned = std::make_shared<int>();
    scheduler home;
    {
        interop::asio_context context(home);
        asio::post(context.get_executor(), [owned] {});
        CHECK(owned.use_count() == 2);
    }
    CHECK(owned.use_count() == 1);
    home.run_native();
}

}  // namespace
}  // namespace ringloop::testing
