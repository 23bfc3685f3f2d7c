// directory_entry: what a directory says of one of its entries. Plain data, for any thread.
#pragma once

#include <cstdint>
#include <string>

namespace ringloop::fs {

struct directory_entry {
    std::string name;
    std::uint64_t inode;
    std::uint8_t kind;         // DT_REG, DT_DIR …
    std::uint8_t target_kind;  // the same, links followed; DT_UNKNOWN: it points nowhere
};

}  // namespace ringloop::fs
