// uv_guest: a uv_loop_t driven by our ring, with its timers, sockets, threads and close order.
#include <ringloop/interop/uv.hpp>

#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "ringloop/ringloop.hpp"
#include "support/bodies.hpp"
#include "unit/interop/uv_loop.hpp"

namespace ringloop::testing {
namespace {

using namespace std::chrono_literals;

// A timer that calls a function, and closes itself after `left` calls.
struct ticker {
    uv_timer_t timer;
    int left;
    std::function<void()> call;
    ticker(uv_loop_t* loop, std::uint64_t after_ms, std::uint64_t every_ms, int calls,
           std::function<void()> each)
        : left(calls), call(std::move(each)) {
        uv_timer_init(loop, &timer);
        timer.data = this;
        uv_timer_start(
            &timer,
            [](uv_timer_t* fired) {
                auto& self = *static_cast<ticker*>(fired->data);
                self.call();
                if (--self.left == 0) uv_close(reinterpret_cast<uv_handle_t*>(fired), nullptr);
            },
            after_ms, every_ms);
    }
};

template <class Work>
void run_on(const body& which, Work work) {
    scheduler home(make_body(which));
    sync_wait(home, work());
    check_settled(home.io());
}

TEST_CASE("timers of libuv's run beside sleeping tasks and never early") {
    const uv_ledger nothing_left;
    const auto which = GENERATE(from_range(real_bodies()));
    CAPTURE(which);
    loop foreign;
    int fired = 0;
    std::int64_t took_ns = 0;
    int slept = 0;
    run_on(which, [&]() -> task<void> {
        interop::uv_guest guest(&foreign.uv);
        ticker ticks(&foreign.uv, 3, 3, 5, [&] { ++fired; });
        const std::int64_t begin_ns = scheduler::current()->now_ns();
        while (guest.alive()) {
            co_await sleep_for(1ms);
            ++slept;
        }
        co_await guest.finished();
        took_ns = scheduler::current()->now_ns() - begin_ns;
    });
    CHECK(fired == 5);
    CHECK(took_ns >= 13'000'000);  // libuv counts from the millisecond that has begun
    CHECK(slept >= 2);
}

TEST_CASE("a timer that a task starts after a long sleep counts from then") {
    const auto which = GENERATE(from_range(real_bodies()));
    CAPTURE(which);
    loop foreign;
    std::int64_t took_ns = 0;
    run_on(which, [&]() -> task<void> {
        interop::uv_guest guest(&foreign.uv);
        co_await sleep_for(30ms);
        const std::int64_t begin_ns = scheduler::current()->now_ns();
        ticker once(&foreign.uv, 20, 0, 1, [] {});
        co_await guest.finished();
        took_ns = scheduler::current()->now_ns() - begin_ns;
    });
    CHECK(took_ns >= 18'000'000);
}

struct echo {
    uv_tcp_t listener, peer, client;
    uv_connect_t connecting;
    uv_write_t writing, answering;
    char memory[64];
    std::string heard;
    sockaddr_storage address{};

    static echo& of(void* data) { return *static_cast<echo*>(data); }
    static void allocate(uv_handle_t* handle, std::size_t, uv_buf_t* into) {
        echo& self = of(handle->data);
        *into = uv_buf_init(self.memory, sizeof self.memory);
    }
    explicit echo(uv_loop_t* loop) {
        uv_tcp_init(loop, &listener);
        uv_tcp_init(loop, &peer);
        uv_tcp_init(loop, &client);
        listener.data = peer.data = client.data = connecting.data = writing.data = this;
        sockaddr_in any{};
        uv_ip4_addr("127.0.0.1", 0, &any);
        uv_tcp_bind(&listener, reinterpret_cast<sockaddr*>(&any), 0);
        uv_listen(reinterpret_cast<uv_stream_t*>(&listener), 1, &echo::accepted);
        int size = sizeof address;
        uv_tcp_getsockname(&listener, reinterpret_cast<sockaddr*>(&address), &size);
        uv_tcp_connect(&connecting, &client, reinterpret_cast<sockaddr*>(&address),
                       &echo::connected);
    }
    static void accepted(uv_stream_t* from, int) {
        echo& self = of(from->data);
        auto* peer = reinterpret_cast<uv_stream_t*>(&self.peer);
        uv_accept(from, peer);
        uv_read_start(peer, &echo::allocate, [](uv_stream_t* stream, ssize_t got, const uv_buf_t*) {
            echo& here = of(stream->data);
            if (got <= 0) return;
            uv_buf_t bytes = uv_buf_init(here.memory, static_cast<unsigned>(got));
            uv_write(&here.answering, stream, &bytes, 1, nullptr);
        });
    }
    static void connected(uv_connect_t* request, int) {
        echo& self = of(request->data);
        auto* client = reinterpret_cast<uv_stream_t*>(&self.client);
        static char words[] = "by libuv";
        uv_buf_t bytes = uv_buf_init(words, 8);
        uv_write(&self.writing, client, &bytes, 1, nullptr);
        uv_read_start(client, &echo::allocate,
                      [](uv_stream_t* stream, ssize_t got, const uv_buf_t* from) {
                          echo& here = of(stream->data);
                          if (got > 0) here.heard.append(from->base, static_cast<std::size_t>(got));
                          here.close();
                      });
    }
    void close() {
        for (uv_tcp_t* each : {&listener, &peer, &client})
            uv_close(reinterpret_cast<uv_handle_t*>(each), nullptr);
    }
};

TEST_CASE("sockets of libuv's work on our ring") {
    const uv_ledger nothing_left;
    const auto which = GENERATE(from_range(real_bodies()));
    CAPTURE(which);
    loop foreign;
    std::string heard;
    run_on(which, [&]() -> task<void> {
        interop::uv_guest guest(&foreign.uv);
        co_await sleep_for(1ms);
        echo sockets(&foreign.uv);  // begun by a task, long after the guest
        co_await guest.finished();
        heard = sockets.heard;
    });
    CHECK(heard == "by libuv");
}

TEST_CASE("a callback wakes a task, and another thread a callback") {
    const uv_ledger nothing_left;
    const auto which = GENERATE(from_range(real_bodies()));
    CAPTURE(which);
    loop foreign;
    int woken = 0;
    run_on(which, [&]() -> task<void> {
        interop::uv_guest guest(&foreign.uv);
        event seen;
        uv_async_t door;
        door.data = &seen;
        uv_async_init(&foreign.uv, &door,
                      [](uv_async_t* handle) { static_cast<event*>(handle->data)->set(); });
        std::jthread other([&] { uv_async_send(&door); });
        co_await seen.wait();
        ++woken;
        uv_close(reinterpret_cast<uv_handle_t*>(&door), nullptr);
        co_await guest.finished();
    });
    CHECK(woken == 1);
}

TEST_CASE("a stop ends the wait for a guest and leaves its loop to go on") {
    const uv_ledger nothing_left;
    loop foreign;
    bool limit_passed = false;
    int fired = 0;
    run_on({backend::epoll}, [&]() -> task<void> {
        interop::uv_guest guest(&foreign.uv);
        ticker ticks(&foreign.uv, 1, 1, 20, [&] { ++fired; });
        try {
            co_await with_timeout(5ms, guest.finished());
        } catch (const timed_out&) {
            limit_passed = true;
        }
        co_await guest.finished();
    });
    CHECK(limit_passed);
    CHECK(fired == 20);
}

TEST_CASE("a guest that ends leaves the loop to another, or to uv_run()") {
    const uv_ledger nothing_left;
    const auto which = GENERATE(from_range(real_bodies()));
    CAPTURE(which);
    loop foreign;
    int fired = 0;
    ticker ticks(&foreign.uv, 1, 1, 9, [&] { ++fired; });
    for (int times = 1; times <= 2; ++times) {
        run_on(which, [&]() -> task<void> {
            interop::uv_guest guest(&foreign.uv);
            while (fired < 3 * times) co_await sleep_for(1ms);
        });
    }
    CHECK(fired >= 6);
    uv_run(&foreign.uv, UV_RUN_DEFAULT);
    CHECK(fired == 9);
}

TEST_CASE("a second guest of a loop and nested runs are refused") {
    loop foreign;
    std::string second, nested_wait, nested_run;
    const auto said = [](auto function) {
        try {
            function();
        } catch (const std::logic_error& refusal) {
            return std::string(refusal.what());
        }
        return std::string();
    };
    scheduler home;
    const auto nothing = []() -> task<void> { co_return; };
    const auto work = [&]() -> task<void> {
        interop::uv_guest guest(&foreign.uv);
        second = said([&] { interop::uv_guest again(&foreign.uv); });
        ticker once(&foreign.uv, 1, 0, 1, [&] {
            nested_wait = said([&] { sync_wait(home, nothing()); });
            nested_run = said([&] { home.run(); });
        });
        co_await guest.finished();
    };
    sync_wait(home, work());
    CHECK_THAT(second, Catch::Contains("has a uv_guest or a uv_host already"));
    CHECK_THAT(nested_wait, Catch::Contains("inside of a turn of the same scheduler"));
    CHECK_THAT(nested_run, Catch::Contains("inside of a turn of the same scheduler"));
}

TEST_CASE("scheduler::run() goes on for a guest's loop, and returns when that has nothing left") {
    loop foreign;
    scheduler home;
    int fired = 0;
    ticker ticks(&foreign.uv, 1, 1, 3, [&] { ++fired; });
    interop::uv_guest guest(&foreign.uv, home);
    home.poll();
    home.run();
    CHECK(fired == 3);
}

}  // namespace
}  // namespace ringloop::testing
