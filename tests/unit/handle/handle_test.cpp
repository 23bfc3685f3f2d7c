// The shared handle without Python: producers on std::thread's of their own, the loop's side on
// this one; and what a broken or hostile producer may write into the memory.
#include <poll.h>
#include <sys/eventfd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "ringloop/bridge/core/handle_consumer.hpp"

using ringloop::bridge::handle_consumer;

namespace {

struct handle {
    explicit handle(std::uint32_t lanes, std::uint32_t slots)
        : memory(ringloop_handle_memory_size(lanes, slots) / sizeof(line) + 1),
          view(placed(memory.data(), lanes, slots)),
          consumer(view) {}
    handle(const handle&) = delete;
    handle& operator=(const handle&) = delete;
    ~handle() { close(view.wake_fd); }

    ringloop_token reserve(unsigned lane, void* owner = nullptr) {
        ringloop_token token = 0;
        const auto made = consumer.reserve(lane, owner != nullptr ? owner : this, token);
        return made == handle_consumer::reservation::made ? token : 0;
    }
    // What arrives, as (owner, int) pairs.
    std::vector<std::pair<void*, std::int64_t>> drain() {
        std::vector<std::pair<void*, std::int64_t>> found;
        consumer.drain([&](void* owner, const ringloop_record& record) {
            std::int64_t value = 0;
            std::memcpy(&value, record.data, sizeof value);
            found.emplace_back(owner, value);
        });
        return found;
    }
    ringloop_record& record(unsigned lane, std::uint64_t position) {
        return view.records[std::size_t{lane} * view.slots + (position & (view.slots - 1))];
    }

    struct alignas(64) line {
        std::array<std::byte, 64> bytes;
    };
    std::vector<line> memory;
    ringloop_handle view;
    handle_consumer consumer;

  private:
    static ringloop_handle placed(void* memory, std::uint32_t lanes, std::uint32_t slots) {
        ringloop_handle view = {};
        ringloop_handle_place(&view, memory, lanes, slots);
        view.lane = -1;
        view.alive_fd = -1;
        view.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        return view;
    }
};

int mark[8];

// Tokens on their way to a producer: one writer, one reader.
class mail {
  public:
    explicit mail(std::size_t size) : places_(size) {}
    void put(ringloop_token token) {
        places_[tail_++ % places_.size()].store(token, std::memory_order_release);
    }
    ringloop_token take() {
        auto& place = places_[head_++ % places_.size()];
        for (;;) {
            if (const auto token = place.exchange(0, std::memory_order_acquire); token != 0)
                return token;
            std::this_thread::yield();
        }
    }

  private:
    std::vector<std::atomic<ringloop_token>> places_;
    std::size_t tail_ = 0;
    std::size_t head_ = 0;
};

}  // namespace

TEST_CASE("four producers lose nothing, double nothing and keep their order", "[handle]") {
    constexpr unsigned producers = 4;
    constexpr std::uint32_t slots = 256;
    const bool all = std::getenv("RINGLOOP_TEST_ALL") != nullptr;
    const std::int64_t each = (all ? 10'000'000 : 200'000) / producers;
    handle shared(producers, slots);
    std::vector<std::unique_ptr<mail>> boxes;
    std::array<std::int64_t, producers> sent{}, seen{};
    std::array<std::atomic<int>, producers> errors{};
    for (unsigned i = 0; i < producers; ++i) boxes.push_back(std::make_unique<mail>(slots));
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < producers; ++i) {
        threads.emplace_back([&, i] {
            for (std::int64_t n = 0; n < each; ++n)
                errors[i] += ringloop_handle_complete_int(&shared.view, boxes[i]->take(), n) != 0;
        });
    }
    const auto submit = [&](unsigned lane) {
        if (sent[lane] == each) return;
        const ringloop_token token = shared.reserve(lane, &seen[lane]);
        REQUIRE(token != 0);
        ++sent[lane];
        boxes[lane]->put(token);
    };
    for (unsigned i = 0; i < producers; ++i)
        for (std::uint32_t n = 0; n < slots; ++n) submit(i);
    std::uint64_t writes = 0;
    while (seen != std::array{each, each, each, each}) {
        std::int64_t wrong = 0;
        shared.consumer.drain([&](void* owner, const ringloop_record& record) {
            auto& next = *static_cast<std::int64_t*>(owner);
            std::int64_t value = 0;
            std::memcpy(&value, record.data, sizeof value);
            wrong += value != next++;
            submit(static_cast<unsigned>(&next - seen.data()));
        });
        REQUIRE(wrong == 0);
        if (!shared.consumer.announce_sleep()) continue;
        if (seen == std::array{each, each, each, each}) break;
        pollfd wake{shared.view.wake_fd, POLLIN, 0};
        REQUIRE(poll(&wake, 1, 30'000) == 1);
        eventfd_t count = 0;
        REQUIRE(eventfd_read(shared.view.wake_fd, &count) == 0);
        writes += count;
        shared.consumer.end_sleep();
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& count : errors) CHECK(count == 0);
    CHECK(shared.consumer.counted().completions == static_cast<std::uint64_t>(each) * producers);
    CHECK(shared.consumer.counted().strays == 0);
    CHECK(writes <= shared.consumer.counted().sleeps);
    CHECK(shared.drain().empty());
}

TEST_CASE("threads may share a lane", "[handle]") {
    constexpr std::size_t count = 3'000;
    handle shared(1, 4096);
    std::vector<ringloop_token> tokens;
    for (std::size_t i = 0; i < count; ++i) tokens.push_back(shared.reserve(0));
    std::vector<std::thread> threads;
    for (std::size_t first = 0; first < 3; ++first) {
        threads.emplace_back([&, first] {
            for (std::size_t i = first; i < count; i += 3)
                ringloop_handle_complete_int(&shared.view, tokens[i], static_cast<std::int64_t>(i));
        });
    }
    std::array<std::int64_t, 3> last{-1, -1, -1};
    for (std::size_t found = 0; found < count;) {
        for (const auto& [owner, value] : shared.drain()) {
            auto& before = last[static_cast<std::size_t>(value % 3)];
            REQUIRE(value > before);
            before = value;
            ++found;
        }
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(shared.consumer.counted().completions == count);
}

TEST_CASE("a lane has as many tokens as slots, and room for each completion", "[handle]") {
    handle shared(2, 4);
    for (int round = 0; round < 3; ++round) {
        std::array<ringloop_token, 4> tokens{};
        for (auto& token : tokens) REQUIRE((token = shared.reserve(1, &mark[0])) != 0);
        CHECK(shared.reserve(1) == 0);
        for (const auto token : tokens) CHECK(ringloop_handle_complete(&shared.view, token) == 0);
        CHECK(shared.drain().size() == 4);
        CHECK(shared.reserve(0) != 0);
    }
    CHECK(shared.reserve(0) != 0);
    CHECK(shared.reserve(0) == 0);
}

TEST_CASE("what a producer does wrong is refused, or dropped", "[handle]") {
    handle shared(2, 4);
    const ringloop_token token = shared.reserve(0, &mark[1]);
    CHECK(ringloop_handle_complete(&shared.view, token | 0x20000) == -EINVAL);    // lane 2
    CHECK(ringloop_handle_complete(&shared.view, token | 4) == -EINVAL);          // slot 4
    CHECK(ringloop_handle_complete(&shared.view, token | 0x1000000) == -EINVAL);  // spare bits
    CHECK(ringloop_handle_fail(&shared.view, token, 0) == -EINVAL);
    const std::array<char, 41> much{};
    CHECK(ringloop_handle_complete_bytes(&shared.view, token, much.data(), 41) == -EMSGSIZE);
    CHECK(shared.drain().empty());
    for (int i = 0; i < 4; ++i) CHECK(ringloop_handle_complete(&shared.view, token) == 0);
    CHECK(ringloop_handle_complete(&shared.view, token) == -ENOBUFS);
    CHECK(shared.drain().size() == 1);
    CHECK(shared.consumer.counted().strays == 3);
    const ringloop_token next = shared.reserve(0);  // the same slot
    CHECK(ringloop_token_slot(next) == ringloop_token_slot(token));
    CHECK(ringloop_handle_complete(&shared.view, token) == 0);
    CHECK(shared.drain().empty());
    shared.consumer.close();
    CHECK(ringloop_handle_complete(&shared.view, next) == -EPIPE);
    CHECK(ringloop_handle_wanted(&shared.view, next) == 0);
    shared.view.lane = 1;
    CHECK(ringloop_handle_complete(&shared.view, next) == -EINVAL);
}

TEST_CASE("nobody hears of a token whose await has left, and its slot is free at last",
          "[handle]") {
    handle shared(1, 1);
    const ringloop_token token = shared.reserve(0, &mark[1]);
    CHECK(ringloop_handle_wanted(&shared.view, token) == 1);
    shared.consumer.abandon(token);
    shared.consumer.abandon(token);
    CHECK(ringloop_handle_wanted(&shared.view, token) == 0);
    CHECK(shared.reserve(0) == 0);
    CHECK(ringloop_handle_complete(&shared.view, token) == 0);
    CHECK(shared.drain().empty());
    CHECK(shared.consumer.counted().abandoned == 1);
    CHECK(shared.reserve(0) != 0);
}

TEST_CASE("a half written record is never delivered, and its lane can be used again", "[handle]") {
    handle shared(1, 4);
    const ringloop_token whole = shared.reserve(0, &mark[0]);
    const ringloop_token half = shared.reserve(0, &mark[1]);
    const ringloop_token behind = shared.reserve(0, &mark[2]);
    CHECK(ringloop_handle_complete_int(&shared.view, whole, 1) == 0);
    // What a producer that is killed between taking the place and rule 2 leaves.
    shared.record(0, shared.view.heads[0].tail++).token = half;
    CHECK(ringloop_handle_complete_int(&shared.view, behind, 3) == 0);
    CHECK(shared.drain() == std::vector<std::pair<void*, std::int64_t>>{{&mark[0], 1}});
    std::vector<void*> ended;
    shared.consumer.end_lane(0, [&](void* owner) { ended.push_back(owner); });
    CHECK(ended == std::vector<void*>{&mark[1], &mark[2]});
    CHECK(shared.consumer.reserved() == 0);
    for (std::int64_t i = 0; i < 20; ++i) {
        const ringloop_token next = shared.reserve(0, &mark[3]);
        CHECK(shared.drain().empty());
        CHECK(ringloop_handle_complete_int(&shared.view, next, i) == 0);
        CHECK(shared.drain() == std::vector<std::pair<void*, std::int64_t>>{{&mark[3], i}});
    }
    CHECK(shared.consumer.counted().strays == 0);
}

TEST_CASE("no bytes in the memory lead out of it or to somebody else's await", "[handle]") {
    handle shared(2, 4);
    const ringloop_token token = shared.reserve(0, &mark[1]);
    std::uint64_t seed = 1;
    const auto random = [&seed] {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        return seed ^= seed << 17;
    };
    std::uint64_t position = 0;
    for (int round = 0; round < 20'000; ++round) {
        ringloop_record& record = shared.record(0, position);
        record.token = random() & (random() % 2 != 0 ? ~std::uint64_t{0} : 0x0000'0000'0003'0007);
        record.size = static_cast<std::uint16_t>(random());
        record.sequence = ++position;
        shared.view.heads[0].tail = random();
        shared.view.heads[0].head = random();
        for (auto& word : shared.view.header->pending_mask) word = random() | 1;
        shared.view.header->lanes = static_cast<std::uint32_t>(random());
        shared.view.header->slots = static_cast<std::uint32_t>(random());
        shared.consumer.drain([&](void* owner, const ringloop_record& found) {
            CHECK(owner == &mark[1]);
            CHECK(found.token == token);
            CHECK(found.size <= RINGLOOP_HANDLE_BYTES_MAX);
        });
    }
    CHECK(shared.consumer.counted().strays + shared.consumer.counted().completions == position);
}

TEST_CASE("one lane's flood leaves the others their turn", "[handle]") {
    handle shared(2, 4096);
    for (unsigned i = 0; i < 2000; ++i)
        REQUIRE(ringloop_handle_complete(&shared.view, shared.reserve(0, &mark[0])) == 0);
    REQUIRE(ringloop_handle_complete(&shared.view, shared.reserve(1, &mark[1])) == 0);
    const auto first = shared.drain();
    CHECK(first.size() == handle_consumer::lane_records_max + 1);
    CHECK(first.back().first == &mark[1]);
    CHECK_FALSE(shared.consumer.announce_sleep());
    CHECK(shared.drain().size() == 2000 - handle_consumer::lane_records_max);
    CHECK(shared.consumer.announce_sleep());
}
