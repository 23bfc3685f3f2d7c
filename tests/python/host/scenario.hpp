// A program that hosts Python, as tests/python/test_host*.py run it: test_host NAME [ARGUMENT…].
//
// Each file adds its scenarios; one that fails throws, or ends the process. main() is in main.cpp.
// Thread: the main one.
#pragma once

#include <ringloop/python.hpp>

#include <stdexcept>
#include <string>
#include <vector>

namespace rl = ringloop;

using arguments = std::vector<std::string>;

struct scenario {
    scenario(const char* name, int (*run)(const arguments&));
};

// Assertions of a scenario.
inline void check(bool true_one, const char* what) {
    if (!true_one) throw std::logic_error(std::string("not so: ") + what);
}
#define CHECK(...) check((__VA_ARGS__), #__VA_ARGS__)
