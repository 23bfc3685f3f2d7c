// task<T> without a scheduler: values, exceptions, ownership, stack use, frame memory.
#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ringloop/task.hpp"
#include "unit/core/run_now.hpp"

namespace {

using ringloop::task;

task<int> value(int v) {
    co_return v;
}
task<void> nothing() {
    co_return;
}
task<std::unique_ptr<int>> owned(int v) {
    co_return std::make_unique<int>(v);
}
task<int&> referred(int& v) {
    co_return v;
}
task<int> failing(const char* text) {
    if (text != nullptr) throw std::runtime_error(text);
    co_return 0;
}

task<long> sum_of(long count) {
    long sum = 0;
    for (long i = 0; i < count; ++i) sum += co_await value(1);
    co_return sum;
}

task<long> count_down(long n) {
    if (n == 0) co_return 0;
    co_return 1 + co_await count_down(n - 1);
}

// Suspends until the test resumes it.
struct gate {
    std::coroutine_handle<> waiting;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> handle) noexcept { waiting = handle; }
    void await_resume() const noexcept {}
};
task<long> behind_gate(gate& g, long n) {
    if (n == 0) {
        co_await g;
        co_return 0;
    }
    co_return 1 + co_await behind_gate(g, n - 1);
}

}  // namespace

TEST_CASE("a task hands its value to its awaiter", "[task]") {
    const auto body = [](int& seen) -> task<std::string> {
        int local = 5;
        int& same = co_await referred(local);
        same = 6;
        seen = co_await value(40) + *co_await owned(2) + local;
        co_await nothing();
        co_return "done";
    };
    int seen = 0;
    CHECK(test::run_now(body(seen)) == "done");
    CHECK(seen == 48);
}

TEST_CASE("a task is lazy", "[task]") {
    bool ran = false;
    const auto body = [](bool& flag) -> task<void> {
        flag = true;
        co_return;
    };
    { auto never = body(ran); }
    CHECK_FALSE(ran);
    test::run_now(body(ran));
    CHECK(ran);
}

TEST_CASE("an exception passes through every awaiting task", "[task]") {
    const auto middle = []() -> task<int> { co_return co_await failing("broken"); };
    const auto outer = [&]() -> task<int> { co_return co_await middle(); };
    CHECK_THROWS_WITH(test::run_now(outer()), "broken");
}

TEST_CASE("a task that was moved from is empty", "[task]") {
    auto a = value(3);
    auto b = std::move(a);
    CHECK_FALSE(a);  // NOLINT: the state after the move is the point
    CHECK(static_cast<bool>(b));
    CHECK(test::run_now(std::move(b)) == 3);
}

TEST_CASE("a million ready awaits in a loop need constant stack", "[task][stack]") {
    CHECK(test::run_now(sum_of(1'000'000)) == 1'000'000);
}

TEST_CASE("a million ready awaits need constant stack also when a plain resume() started them",
          "[task][stack]") {
    ringloop::result<long> outcome;
    {
        auto root = test::start_into(sum_of(1'000'000), outcome);
        root.go_without_trampoline();
        REQUIRE(root.done());
    }
    CHECK(outcome.take() == 1'000'000);
}

TEST_CASE("recursion a hundred thousand deep needs constant stack, down and back up",
          "[task][stack]") {
    CHECK(test::run_now(count_down(100'000)) == 100'000);
}

TEST_CASE("a deep chain that waited at its bottom needs constant stack on the way back",
          "[task][stack]") {
    gate g;
    ringloop::result<long> outcome;
    {
        auto root = test::start_into(behind_gate(g, 100'000), outcome);
        root.go();
        REQUIRE_FALSE(root.done());
        SECTION("resumed by the runtime") {
            ringloop::detail::resume(g.waiting);
        }
        SECTION("resumed by somebody else") {
            g.waiting.resume();
        }
        REQUIRE(root.done());
    }
    CHECK(outcome.take() == 100'000);
}

TEST_CASE("a frame freed by another thread than the one that made it is reused there",
          "[task][frames]") {
    for (int round = 0; round < 50; ++round) {
        std::vector<task<int>> made;
        for (int i = 0; i < 200; ++i) made.push_back(value(i));
        std::thread other([batch = std::move(made)]() mutable {
            long sum = 0;
            for (auto& t : batch) sum += test::run_now(std::move(t));
            batch.clear();
            for (int i = 0; i < 200; ++i) sum -= test::run_now(value(i));
            if (sum != 0) std::terminate();
        });
        other.join();
    }
}

TEST_CASE("frames beyond what a thread keeps, and frames of any size, are given back",
          "[task][frames]") {
    std::vector<task<int>> made;
    for (int i = 0; i < 20'000; ++i) made.push_back(value(i));
    made.clear();
    std::vector<void*> blocks;
    std::vector<std::size_t> sizes;
    for (std::size_t size = 1; size < 6000; size += 37) {
        blocks.push_back(ringloop::detail::allocate_frame(size));
        sizes.push_back(size);
    }
    for (std::size_t i = 0; i < blocks.size(); ++i)
        ringloop::detail::free_frame(blocks[i], sizes[i]);
    CHECK(test::run_now(value(1)) == 1);
}

TEST_CASE("a task runs in its awaiter's scope unless it was given one", "[task][stop]") {
    ringloop::stop_scope inner;
    const auto ask = []() -> task<ringloop::stop_scope*> {
        co_return co_await ringloop::current_scope();
    };
    const auto outer = [&]() -> task<bool> {
        auto* mine = co_await ringloop::current_scope();
        auto* same = co_await ask();
        auto* other = co_await ask().in(inner);
        co_return mine == same&& other == &inner;
    };
    CHECK(test::run_now(outer()));
}
