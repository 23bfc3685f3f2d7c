// print_rounds: what a benchmark of several kinds, each measured once a round, prints: JSON.
#pragma once

#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace bench {

using rounds_by_kind = std::map<std::string, std::vector<double>>;

inline void print_rounds(const rounds_by_kind& found) {
    const char* before = "{";
    for (const auto& [name, values] : found) {
        std::printf("%s\"%s\": [", before, name.c_str());
        for (std::size_t i = 0; i < values.size(); ++i)
            std::printf("%s%.1f", i == 0 ? "" : ", ", values[i]);
        std::printf("]");
        before = ",\n ";
    }
    std::printf("}\n");
}

}  // namespace bench
