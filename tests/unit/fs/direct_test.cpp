// Around the page cache: the alignment that a file asks for, memory that has it; memory that the
// kernel has pinned.
#include <cstring>
#include <memory>
#include <optional>

#include "unit/fs/folder.hpp"
#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace fs = rl::fs;

TEST_CASE("an aligned buffer has its alignment and its size rounded up", "[fs]") {
    for (const std::size_t alignment : {std::size_t{1}, std::size_t{512}, std::size_t{65536}}) {
        const fs::aligned_buffer buffer(1000, alignment);
        CHECK(buffer.size() >= 1000);
        CHECK(buffer.size() % alignment == 0);
        CHECK(reinterpret_cast<std::uintptr_t>(buffer.bytes().data()) % alignment == 0);
    }
    CHECK_THROWS_AS(fs::aligned_buffer(1000, 1000), std::invalid_argument);
    CHECK_THROWS_AS(fs::aligned_buffer(0), std::invalid_argument);
    CHECK_THROWS_AS(fs::aligned_buffer(SIZE_MAX), std::invalid_argument);
}

TEST_CASE("a file is written and read around the page cache, aligned as it asks", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const auto scenario = [&]() -> rl::task<void> {
        const int fd = ::open((home / "probe").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
        if (fd < 0) co_return;  // this file system has no O_DIRECT
        ::close(fd);
        const auto file = co_await fs::open(home / "data", O_RDWR | O_CREAT | O_DIRECT, 0600);
        const fs::direct_alignment need = co_await fs::direct_alignment_of(file);
        CHECK(need.memory >= 1);
        CHECK(need.offset >= 1);
        const std::string text = pattern(std::size_t{need.offset} * 4);
        fs::aligned_buffer out(text.size(), need.memory);
        std::memcpy(out.bytes().data(), text.data(), text.size());
        const std::size_t written = co_await file.write_at(out.bytes().first(text.size()), 0);
        CHECK(written == text.size());
        const fs::aligned_buffer in(text.size(), need.memory);
        const std::size_t read = co_await file.read_at(in.bytes().first(text.size()), 0);
        CHECK(text_of(in.bytes().first(read)) == text);
    };
    r.run(scenario());
}

TEST_CASE("registered memory is read into and written from like any other", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::all_bodies()));
    const bool direct = GENERATE(false, true);
    CAPTURE(body, direct);
    const folder home;
    runner r(body);
    const bool fake = body.kind == rl::backend::fake;
    const std::filesystem::path path = home.file_on(body);
    const int around = direct && !fake ? O_DIRECT : 0;
    const std::string text = pattern(8192);
    const auto scenario = [&]() -> rl::task<void> {
        if (around != 0) {
            const int fd = ::open((home / "probe").c_str(), O_RDWR | O_CREAT | O_DIRECT, 0600);
            if (fd < 0) co_return;  // this file system has no O_DIRECT
            ::close(fd);
        }
        auto file = co_await fs::open(path, O_RDWR | O_CREAT | around, 0600);
        const fs::registered_memory memory(3 * 8192);
        CHECK(memory.is_registered() == (body.kind == rl::backend::uring));
        const auto out = memory.part(8192, 8192);
        std::memcpy(out.bytes().data(), text.data(), text.size());
        const std::size_t written = co_await file.write_at(out, 0);
        CHECK(written == 8192);
        const auto in = memory.part(16384, 8192).first(4096);
        const std::size_t read = co_await file.read_at(in, 4096);
        CHECK(read == 4096);
        CHECK(text_of(in.bytes()) == std::string_view(text).substr(4096));
        CHECK_THROWS_AS(memory.part(memory.size(), 1), std::out_of_range);
        CHECK_THROWS_AS(memory.part(1, memory.size()), std::out_of_range);
        CHECK_THROWS_AS(file.read_at(in, -1), std::invalid_argument);
    };
    r.run(scenario());
}

TEST_CASE("memory that cannot be registered any more is plain, and places are used again", "[fs]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    const folder home;
    runner r(body);
    const bool ring = body.kind == rl::backend::uring;
    const auto scenario = [&]() -> rl::task<void> {
        auto file = co_await fs::open(home / "data", O_RDWR | O_CREAT, 0600);
        static_cast<void>(co_await file.write_at(std::as_bytes(std::span("01234567", 8)), 0));
        for (int round = 0; round < 3; ++round) {
            std::vector<std::unique_ptr<fs::registered_memory>> all;
            for (int i = 0; i < rl::driver::registered_max + 1; ++i) {
                all.push_back(std::make_unique<fs::registered_memory>(4096));
                CHECK(all.back()->is_registered() == (ring && i < rl::driver::registered_max));
                const auto into = all.back()->part(0, 8);
                const std::size_t count = co_await file.read_at(into, 0);
                CHECK(count == 8);
                CHECK(text_of(into.bytes()) == "01234567");
            }
        }
    };
    r.run(scenario());
}

TEST_CASE("registered memory is for its own scheduler, which it may outlive", "[fs]") {
    const folder home;
    std::optional<fs::registered_memory> memory;
    std::optional<runner> first(std::in_place, rl::testing::real_bodies().front());
    first->run([&]() -> rl::task<void> {
        memory.emplace(4096);
        co_return;
    }());
    const bool registered = memory->is_registered();
    {
        runner other(rl::testing::real_bodies().back());
        other.run([&]() -> rl::task<void> {
            auto file = co_await fs::open(home / "data", O_RDWR | O_CREAT, 0600);
            if (registered) CHECK_THROWS_AS(file.read_at(memory->part(0, 1), 0), std::logic_error);
        }());
    }
    first.reset();
    CHECK_FALSE(memory->is_registered());
    CHECK(memory->part(0, 1).bytes().size() == 1);
}
