// uv_host: tasks in a plain libuv program.
#include <ringloop/interop/uv.hpp>

#include <catch2/catch.hpp>
#include <chrono>
#include <exception>
#include <string>

#include "ringloop/ringloop.hpp"
#include "unit/interop/uv_loop.hpp"

namespace ringloop::testing {
namespace {

using namespace std::chrono_literals;

task<void> serve_one(net::tcp_listener& listener) {
    auto peer = co_await listener.accept();
    auto chunk = co_await peer.receive();
    co_await peer.write_all(chunk.bytes());
}

task<void> ask(std::uint16_t port, std::string& answer) {
    auto stream = co_await net::tcp_stream::connect({"127.0.0.1", port});
    co_await stream.write_all(std::as_bytes(std::span("hello", 5)));
    while (answer.size() < 5) {
        auto chunk = co_await stream.receive();
        if (!chunk) break;
        answer.append(reinterpret_cast<const char*>(chunk.bytes().data()), chunk.bytes().size());
    }
}

TEST_CASE("tasks with sockets, timers and workers run in uv_run(), which returns after them") {
    const uv_ledger nothing_left;
    loop foreign;
    std::string answer;
    int more = 0;
    {
        interop::uv_host host(&foreign.uv);
        auto listener = net::tcp_listener::bind(host.native(), {"127.0.0.1", 0});
        host.spawn(serve_one(listener));
        host.spawn(ask(listener.local().port(), answer));
        host.spawn([](int& into) -> task<void> {
            co_await sleep_for(3ms);
            into = co_await offload([] { return 4; });
        }(more));
        CHECK(uv_run(&foreign.uv, UV_RUN_DEFAULT) == 0);
        listener.close();
    }
    CHECK(answer == "hello");
    CHECK(more == 4);
    uv_run(&foreign.uv, UV_RUN_DEFAULT);  // the host's handles
}

TEST_CASE("a callback of libuv's wakes a task, and a task starts a timer of libuv's") {
    const uv_ledger nothing_left;
    loop foreign;
    int fired = 0;
    {
        interop::uv_host host(&foreign.uv);
        event seen;
        uv_timer_t timer;
        timer.data = &seen;
        const auto work = [](uv_timer_t& to_start, event& to_wait, int& into) -> task<void> {
            for (int i = 0; i < 3; ++i) {
                uv_timer_start(
                    &to_start, [](uv_timer_t* handle) { static_cast<event*>(handle->data)->set(); },
                    1, 0);
                co_await to_wait.wait();
                to_wait.reset();
                ++into;
            }
            uv_close(reinterpret_cast<uv_handle_t*>(&to_start), nullptr);
        };
        uv_timer_init(&foreign.uv, &timer);
        host.spawn(work(timer, seen, fired));
        uv_run(&foreign.uv, UV_RUN_DEFAULT);
    }
    CHECK(fired == 3);
    uv_run(&foreign.uv, UV_RUN_DEFAULT);
}

TEST_CASE("the end of a uv_host stops its tasks, and a failure of one is logged") {
    const uv_ledger nothing_left;
    static int logged;
    logged = 0;
    const error_log before = set_error_log([](std::exception_ptr) noexcept { ++logged; });
    loop foreign;
    int stopped = 0;
    {
        interop::uv_host host(&foreign.uv);
        const auto endless = [](int& into) -> task<void> {
            try {
                co_await sleep_for(1h);
            } catch (const operation_cancelled&) {
                ++into;
                throw;
            }
        };
        host.spawn(endless(stopped));
        host.spawn([]() -> task<void> {
            co_await yield();
            throw std::domain_error("fails");
        }());
        uv_run(&foreign.uv, UV_RUN_NOWAIT);
    }
    set_error_log(before);
    CHECK(stopped == 1);
    CHECK(logged == 1);
    uv_run(&foreign.uv, UV_RUN_DEFAULT);
}

TEST_CASE("stop() ends the tasks while the loop goes on") {
    loop foreign;
    {
        interop::uv_host host(&foreign.uv);
        host.spawn([]() -> task<void> { co_await sleep_for(1h); }());
        uv_timer_t timer;
        uv_timer_init(&foreign.uv, &timer);
        timer.data = &host;
        uv_timer_start(
            &timer,
            [](uv_timer_t* handle) {
                static_cast<interop::uv_host*>(handle->data)->stop();
                uv_close(reinterpret_cast<uv_handle_t*>(handle), nullptr);
            },
            2, 0);
        CHECK(uv_run(&foreign.uv, UV_RUN_DEFAULT) == 0);
    }
    uv_run(&foreign.uv, UV_RUN_DEFAULT);
}

TEST_CASE("a task of another thread's makes a hosted one run while it is kept") {
    loop foreign;
    int value = 0;
    {
        interop::uv_host host(&foreign.uv);
        host.keep();
        const auto answer = []() -> task<int> {
            co_await sleep_for(1ms);
            co_return 6;
        };
        std::jthread other([&] {
            value = spawn(host.native(), answer()).get();
            const auto release = [](interop::uv_host& to_release) -> task<void> {
                to_release.let_go();
                co_return;
            };
            spawn(host.native(), release(host)).get();
        });
        uv_run(&foreign.uv, UV_RUN_DEFAULT);
    }
    CHECK(value == 6);
    uv_run(&foreign.uv, UV_RUN_DEFAULT);
}

TEST_CASE("a guest inside of its own host is refused") {
    loop foreign;
    {
        interop::uv_host host(&foreign.uv);
        CHECK_THROWS_WITH(interop::uv_guest(&foreign.uv, host.native()),
                          Catch::Contains("has a uv_guest or a uv_host already"));
    }
    uv_run(&foreign.uv, UV_RUN_DEFAULT);
    CHECK_THROWS_WITH(interop::uv_functions::of_module("/nowhere.so"),
                      Catch::Contains("not loaded: /nowhere.so"));
}

}  // namespace
}  // namespace ringloop::testing
