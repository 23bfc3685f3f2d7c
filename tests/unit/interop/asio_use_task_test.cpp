// use_task: Asio's operations and coroutines awaited by tasks.
#include <asio/experimental/as_tuple.hpp>
#include <asio/redirect_error.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <stop_token>
#include <string>

#include "support/ledger.hpp"
#include "unit/interop/asio_ways.hpp"

namespace ringloop::testing {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

task<std::string> echoed(asio::any_io_executor executor) {
    pair both(executor);
    co_await join(both);
    co_await asio::async_write(both.ours, asio::buffer("hello", 5), use_task);
    char memory[16];
    const std::size_t size = co_await both.theirs.async_read_some(asio::buffer(memory), use_task);
    co_return std::string(memory, size);
}

TEST_CASE("an operation of Asio's is awaited and returns its value") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    CHECK(run_by(which, echoed) == "hello");
}

task<std::error_code> refused(asio::any_io_executor executor) {
    tcp::socket closed(executor);
    char memory[1];
    try {
        co_await closed.async_read_some(asio::buffer(memory), use_task);
    } catch (const error& failure) {  // what Asio's own coroutines throw is its base
        co_return failure.code();
    }
    co_return std::error_code();
}

TEST_CASE("an error_code is thrown") {
    if (!asio_can_wait()) return;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    CHECK(run_by(which, refused) == asio::error::bad_descriptor);
}

struct codes {
    std::error_code ours, adapted, redirected;
};

task<codes> returned(asio::any_io_executor executor) {
    tcp::socket closed(executor);
    char memory[1];
    codes seen;
    auto [ours, size] = co_await closed.async_read_some(asio::buffer(memory), use_task_as_tuple);
    seen.ours = ours;
    auto [adapted, none] = co_await closed.async_read_some(asio::buffer(memory),
                                                           asio::experimental::as_tuple(use_task));
    seen.adapted = adapted;
    co_await closed.async_read_some(asio::buffer(memory),
                                    asio::redirect_error(use_task, seen.redirected));
    co_return seen;
}

TEST_CASE("an error_code is returned, by our token and by Asio's adapters") {
    if (!asio_can_wait()) return;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    const codes seen = run_by(which, returned);
    CHECK(seen.ours == asio::error::bad_descriptor);
    CHECK(seen.adapted == asio::error::bad_descriptor);
    CHECK(seen.redirected == asio::error::bad_descriptor);
}

struct limited {
    bool timed_out_once = false;
    std::string later;
    std::error_code returned;
};

task<limited> with_limits(asio::any_io_executor executor) {
    limited seen;
    pair both(executor);
    co_await join(both);
    char memory[16];
    try {
        co_await with_timeout(5ms, both.theirs.async_read_some(asio::buffer(memory), use_task));
    } catch (const timed_out&) {
        seen.timed_out_once = true;
    }
    co_await asio::async_write(both.ours, asio::buffer("later", 5), use_task);
    const auto size = co_await both.theirs.async_read_some(asio::buffer(memory), use_task);
    seen.later = std::string(memory, size);
    auto [code, none] = co_await with_timeout(
        5ms, both.theirs.async_read_some(asio::buffer(memory), use_task_as_tuple));
    seen.returned = code;
    co_return seen;
}

TEST_CASE("a stop cancels the operation and nothing that arrives later is lost") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    const limited seen = run_by(which, with_limits);
    CHECK(seen.timed_out_once);
    CHECK(seen.later == "later");
    CHECK(seen.returned == asio::error::operation_aborted);
}

TEST_CASE("after a stop an operation is not begun") {
    if (!asio_can_wait()) return;
    asio::io_context io;
    std::stop_source stopped;
    stopped.request_stop();
    bool begun = false;
    const auto operation = [&]() -> task<void> {
        co_await asio::async_initiate<const use_task_t, void()>(
            [&](auto handler) {
                begun = true;
                std::move(handler)();
            },
            use_task);
    };
    CHECK_THROWS_AS(sync_wait(operation(), {}, stopped.get_token()), operation_cancelled);
    CHECK_FALSE(begun);
    sync_wait(operation());
    CHECK(begun);
}

TEST_CASE("what begins and ends an operation at once, and what throws, is handed to the task") {
    if (!asio_can_wait()) return;
    const auto several = []() -> task<std::tuple<int, std::string>> {
        return asio::async_initiate<const use_task_t, void(std::error_code, int, std::string)>(
            [](auto handler) { std::move(handler)(std::error_code(), 7, "seven"); }, use_task);
    };
    CHECK(sync_wait(several()) == std::tuple(7, std::string("seven")));
    const auto thrower = []() -> task<void> {
        return asio::async_initiate<const use_task_t, void(std::error_code)>(
            [](auto) { throw std::runtime_error("not begun"); }, use_task);
    };
    CHECK_THROWS_WITH(sync_wait(thrower()), "not begun");
}

asio::awaitable<int> ticking(std::chrono::milliseconds time) {
    asio::steady_timer timer(co_await asio::this_coro::executor, time);
    co_await timer.async_wait(asio::use_awaitable);
    co_return 5;
}

asio::awaitable<void> failing() {
    co_await ticking(1ms);
    throw std::domain_error("from Asio");
}

struct ended {
    bool failed = false;
    bool timed_out = false;
    int value = 0;
};

task<ended> whole_coroutines(asio::any_io_executor executor) {
    ended seen;
    try {
        co_await asio::co_spawn(executor, failing(), use_task);
    } catch (const std::domain_error&) {
        seen.failed = true;
    }
    try {
        co_await with_timeout(5ms, asio::co_spawn(executor, ticking(1h), use_task));
    } catch (const timed_out&) {
        seen.timed_out = true;
    }
    seen.value = co_await asio::co_spawn(executor, ticking(1ms), use_task);
    co_return seen;
}

TEST_CASE("whole coroutines of Asio's are awaited, fail and are cancelled") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    const ended seen = run_by(which, whole_coroutines);
    CHECK(seen.failed);
    CHECK(seen.timed_out);
    CHECK(seen.value == 5);
}

task<int> cancelled_often(asio::any_io_executor executor) {
    int cancelled = 0;
    for (int i = 0; i < 1000; ++i) {
        asio::steady_timer timer(executor, std::chrono::microseconds(i % 100));
        stop_scope scope(co_await current_scope());
        auto wait = timer.async_wait(use_task);
        if (i % 3 == 0) scope.request_stop();
        try {
            co_await with_timeout(std::chrono::microseconds(i % 50), std::move(wait).in(scope));
        } catch (const timed_out&) {
            ++cancelled;
        } catch (const operation_cancelled&) {
            ++cancelled;
        }
    }
    co_return cancelled;
}

TEST_CASE("a thousand waits end whether the timer or the stop was faster") {
    if (!asio_can_wait()) return;
    const ledger nothing_left;
    const auto which = GENERATE(from_range(ways()));
    CAPTURE(which);
    // How many is the threads' affair; that each ends, and leaves nothing, is what is looked at.
    const int cancelled = run_by(which, cancelled_often);
    CHECK(cancelled > 0);
    CHECK(cancelled <= 1000);
}

task<std::error_code> lost(std::optional<asio::io_context>& io,
                           std::optional<tcp::socket>& socket) {
    char memory[1];
    try {
        co_await socket->async_receive(asio::buffer(memory), use_task);
    } catch (const error& failure) {
        co_return failure.code();
    }
    static_cast<void>(io);
    co_return std::error_code();
}

TEST_CASE("a task learns that its operation went with its io_context") {
    if (!asio_can_wait()) return;
    std::optional<asio::io_context> io(std::in_place);
    std::optional<tcp::socket> socket(std::in_place, *io);
    std::error_code seen;
    const auto both = [&]() -> task<void> {
        co_await with_group([&](task_group& group) -> task<void> {
            group.spawn([](auto& context, auto& from, std::error_code& into) -> task<void> {
                into = co_await lost(context, from);
            }(io, socket, seen));
            co_await yield();
            socket.reset();
            io.reset();  // nobody ever ran it: what was to begin there is gone
        });
    };
    sync_wait(both());
    CHECK(seen == std::errc::operation_canceled);
}

}  // namespace
}  // namespace ringloop::testing
