// Runs the scenario that the command line names. Contract in scenario.hpp.
#include <cstdio>
#include <map>

#include "scenario.hpp"

namespace {

std::map<std::string, int (*)(const arguments&)>& all() {
    static std::map<std::string, int (*)(const arguments&)> known;
    return known;
}

}  // namespace

scenario::scenario(const char* name, int (*run)(const arguments&)) {
    all()[name] = run;
}

int main(int count, char** words) {
    const arguments given(words + 1, words + count);
    if (given.empty() || !all().contains(given[0])) {
        std::fprintf(stderr, "which scenario?\n");
        return 2;
    }
    try {
        return all()[given[0]]({given.begin() + 1, given.end()});
    } catch (const rl::py::error& raised) {
        std::fprintf(stderr, "py::error: %s\n%s", raised.what(), raised.formatted().c_str());
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "failed: %s\n", failure.what());
    }
    return 3;
}
