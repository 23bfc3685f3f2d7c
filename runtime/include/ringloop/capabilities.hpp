// capabilities: which kernel interface a driver uses and why, for people and for tests. Plain data:
// any thread may read a copy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ringloop {

enum class backend : std::uint8_t { automatic, uring, epoll, fake };

struct capabilities {
    backend chosen = backend::automatic;
    std::string reason;               // one sentence: why this backend
    std::string kernel;               // release string of the running kernel
    unsigned submission_entries = 0;  // 0 without a ring
    unsigned completion_entries = 0;
    unsigned buffer_count = 0;                 // the receive pool
    unsigned buffer_size = 0;                  // bytes
    std::vector<std::string> missing_opcodes;  // that this backend would use and this kernel lacks
};

[[nodiscard]] const char* name(backend) noexcept;
// Takes "auto", "uring" or "epoll"; throws std::invalid_argument naming the word and the choices.
[[nodiscard]] backend parse_backend(const std::string& word);

}  // namespace ringloop
