// Boost.Asio by the macro, in one program with the standalone Asio of the other tests.
#define RINGLOOP_ASIO_BOOST
#include <ringloop/interop/asio.hpp>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "ringloop/ringloop.hpp"
#include "support/ledger.hpp"

namespace ringloop::testing {
namespace {

namespace boost_asio = boost::asio;
using namespace std::chrono_literals;

static_assert(boost_asio::execution::is_executor<interop::with_boost_asio::asio_executor>::value);

boost_asio::awaitable<int> ticking() {
    boost_asio::steady_timer timer(co_await boost_asio::this_coro::executor, 1ms);
    co_await timer.async_wait(boost_asio::use_awaitable);
    co_return 3;
}

task<std::string> everything(boost_asio::io_context& io) {
    std::string seen;
    boost_asio::ip::tcp::socket closed(io);
    char memory[1];
    try {
        co_await closed.async_read_some(boost_asio::buffer(memory), use_task);
    } catch (const boost::system::system_error& failure) {
        if (failure.code() == boost_asio::error::bad_descriptor) seen += "threw ";
    }
    auto [code, none] =
        co_await closed.async_read_some(boost_asio::buffer(memory), use_task_as_tuple);
    if (code == boost_asio::error::bad_descriptor) seen += "returned ";
    boost_asio::steady_timer timer(io, 1h);
    try {
        co_await with_timeout(1ms, timer.async_wait(use_task));
    } catch (const timed_out&) {
        seen += "stopped ";
    }
    seen += std::to_string(co_await boost_asio::co_spawn(io, ticking(), use_task));
    co_return seen;
}

TEST_CASE("Boost.Asio's operations are awaited, fail, and are stopped") {
    const ledger nothing_left;
    boost_asio::io_context io;
    CHECK(interop::with_boost_asio::run(io, everything(io)) == "threw returned stopped 3");
}

}  // namespace
}  // namespace ringloop::testing
