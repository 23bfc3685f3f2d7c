// target: what a fuzzer runs, and how it reads its bytes.
//
// A target is a function of bytes that returns whatever they are; a rule that they break ends the
// process (must()). fuzz_test.cpp runs them, with every compiler, on the seeds of seeds/NAME.txt
// and on their mutations, the same ones each time. (libFuzzer would need clang 14's ASan, which
// cannot compile our coroutines: "Cannot represent a difference across sections".)
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fuzz {

using bytes = std::span<const std::uint8_t>;

struct target {
    std::string name;
    void (*run)(bytes);
};

[[nodiscard]] std::vector<target>& targets();

struct registered {
    registered(const char* name, void (*run)(bytes)) { targets().push_back({name, run}); }
};

// Ends the process with `rule` if it does not hold.
void must(bool holds, const char* rule);

// Takes decisions from the bytes, front to back. At the end all are 0.
class choices {
  public:
    explicit choices(bytes from) noexcept : left_(from) {}
    [[nodiscard]] bool empty() const noexcept { return left_.empty(); }
    std::uint8_t byte() noexcept {
        if (left_.empty()) return 0;
        const std::uint8_t first = left_.front();
        left_ = left_.subspan(1);
        return first;
    }
    // 0 … count - 1
    std::size_t below(std::size_t count) noexcept { return byte() % count; }
    std::uint64_t word() noexcept {
        std::uint64_t value = 0;
        for (int i = 0; i < 8; ++i) value = value << 8 | byte();
        return value;
    }
    std::string_view text(std::size_t most) noexcept {
        const auto size = std::min(most, left_.size());
        const std::string_view taken(reinterpret_cast<const char*>(left_.data()), size);
        left_ = left_.subspan(size);
        return taken;
    }

  private:
    bytes left_;
};

}  // namespace fuzz
