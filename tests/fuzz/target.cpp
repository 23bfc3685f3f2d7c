// The list of targets, and the end of a run that broke a rule.
#include "target.hpp"

#include <cstdio>
#include <cstdlib>

namespace fuzz {

std::vector<target>& targets() {
    static std::vector<target> all;
    return all;
}

void must(bool holds, const char* rule) {
    if (holds) return;
    std::fprintf(stderr, "broken: %s\n", rule);
    std::abort();
}

}  // namespace fuzz
