// Around the page cache: the alignment that a file asks for, memory that has it.
#include <cstring>

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
