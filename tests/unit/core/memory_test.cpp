// The account of native memory: exact sums, and an observer told in order.
#include <catch2/catch.hpp>
#include <new>
#include <thread>
#include <tuple>
#include <vector>

#include "ringloop/detail/frame_pool.hpp"
#include "ringloop/memory.hpp"

namespace memory = ringloop::memory;

namespace {

using event = std::tuple<const void*, std::size_t, bool>;
std::vector<event> told;

struct observing {
    observing() {
        told.clear();
        memory::observe([](const void* block, std::size_t bytes, bool taken) noexcept {
            told.emplace_back(block, bytes, taken);
        });
    }
    ~observing() { memory::observe(nullptr); }
    observing(const observing&) = delete;
    observing& operator=(const observing&) = delete;
};

}  // namespace

TEST_CASE("blocks are counted while they are there") {
    const memory::usage before = memory::used(memory::kind::other);
    void* const block = memory::allocate(100);
    {
        const std::vector<int, memory::allocator<int>> numbers(25);
        const memory::usage now = memory::used(memory::kind::other);
        CHECK(now.bytes == before.bytes + 200);
        CHECK(now.blocks == before.blocks + 2);
    }
    memory::release(block, 100);
    memory::release(nullptr, 100);
    CHECK(memory::used(memory::kind::other).bytes == before.bytes);
    CHECK(memory::used(memory::kind::other).blocks == before.blocks);
    CHECK_THROWS_AS(memory::allocator<int>().allocate(~std::size_t{0}), std::bad_alloc);
}

TEST_CASE("the observer is told of each block, in order") {
    void* block = nullptr;
    {
        const observing one;
        block = memory::allocate(100);
        memory::release(block, 100);
    }
    memory::release(memory::allocate(5), 5);
    CHECK(told == std::vector<event>{{block, 100, true}, {block, 100, false}});
}

TEST_CASE("frames that a thread keeps are told apart, and go when it ends") {
    const memory::usage before = memory::used(memory::kind::frames);
    const memory::usage kept_before = memory::kept_frames();
    std::thread([&] {
        void* const one = ringloop::detail::allocate_frame(100);
        void* const large = ringloop::detail::allocate_frame(100'000);
        CHECK(memory::used(memory::kind::frames).blocks == before.blocks + 2);
        ringloop::detail::free_frame(one, 100);
        ringloop::detail::free_frame(large, 100'000);
        const std::int64_t kept = ringloop::detail::frames_are_pooled ? 1 : 0;
        CHECK(memory::used(memory::kind::frames).blocks == before.blocks + kept);
        CHECK(memory::kept_frames().blocks == kept_before.blocks + kept);
        CHECK(memory::kept_frames().bytes == kept_before.bytes + kept * 128);
        void* const again = ringloop::detail::allocate_frame(128);
        CHECK(memory::kept_frames().blocks == kept_before.blocks);
        ringloop::detail::free_frame(again, 128);
    }).join();
    CHECK(memory::used(memory::kind::frames).bytes == before.bytes);
    CHECK(memory::kept_frames().bytes == kept_before.bytes);
}
