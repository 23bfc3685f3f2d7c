// The fuzz targets without a fuzzer: seeds, and mutations of them that are the same in each run.
//
//     RINGLOOP_FUZZ_SECONDS=3      how long each target is tried (default 1)
//     RINGLOOP_FUZZ_TARGET=channel one target alone
//     RINGLOOP_FUZZ_INPUT='\x01…'  one input alone, as a line of seeds/NAME.txt
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iostream>

#include "target.hpp"

// The sanitizers', where there are some: called before they end the process.
extern "C" void __sanitizer_set_death_callback(void (*)()) __attribute__((weak));

namespace {

using input = std::vector<std::uint8_t>;
constexpr std::size_t size_max = 4096;

std::string target_now;
input input_now;

std::string to_line(const input& bytes) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string line;
    for (const std::uint8_t b : bytes) {
        if (b >= ' ' && b <= '~' && b != '\\' && b != '\'' && b != '#') {
            line += static_cast<char>(b);
        } else {
            line += {'\\', 'x', digits[b >> 4], digits[b & 15]};
        }
    }
    return line;
}

input from_line(const std::string& line) {
    input bytes;
    for (std::size_t i = 0; i < line.size(); ++i) {
        if (line[i] == '\\' && i + 3 < line.size()) {
            bytes.push_back(static_cast<std::uint8_t>(
                std::strtoul(line.substr(i + 2, 2).c_str(), nullptr, 16)));
            i += 3;
        } else {
            bytes.push_back(static_cast<std::uint8_t>(line[i]));
        }
    }
    return bytes;
}

void tell_input() {
    std::cerr << "died in fuzz target " << target_now
              << "; again: RINGLOOP_FUZZ_TARGET=" << target_now << " RINGLOOP_FUZZ_INPUT='"
              << to_line(input_now) << "' test_fuzz\n";
}

extern "C" void tell_and_die(int number) {
    tell_input();
    std::signal(number, SIG_DFL);
    std::raise(number);
}

std::vector<input> seeds_of(const std::string& name) {
    std::ifstream file(std::string(RINGLOOP_FUZZ_SEEDS) + "/" + name + ".txt");
    std::vector<input> all;
    for (std::string line; std::getline(file, line);)
        if (!line.empty() && line[0] != '#') all.push_back(from_line(line));
    return all;
}

struct random_numbers {
    std::uint64_t state;
    std::uint64_t next() noexcept {
        state ^= state << 13;
        state ^= state >> 7;
        return state ^= state << 17;
    }
    std::size_t below(std::size_t count) noexcept { return next() % count; }
};

void mutate(input& bytes, const std::vector<input>& seeds, random_numbers& random) {
    static constexpr std::uint8_t extremes[] = {0, 1, 0x7f, 0x80, 0xff, '%', ':', '.', '9'};
    const auto value = [&] {
        return random.below(2) != 0 ? static_cast<std::uint8_t>(random.next())
                                    : extremes[random.below(std::size(extremes))];
    };
    const auto at = [&](std::size_t more) {
        return static_cast<std::ptrdiff_t>(random.below(bytes.size() + more));
    };
    switch (bytes.empty() ? 0 : random.below(6)) {
        case 0:  // longer by a few
            for (std::size_t n = 1 + random.below(16); n != 0; --n)
                bytes.insert(bytes.begin() + at(1), value());
            break;
        case 1:
        case 2:
            bytes[static_cast<std::size_t>(at(0))] = value();
            break;
        case 3:
            bytes.erase(bytes.begin() + at(0));
            break;
        case 4: {  // a part of it once more
            const auto from = at(0);
            const input part(
                bytes.begin() + from,
                bytes.begin() +
                    std::min<std::ptrdiff_t>(from + 16, static_cast<std::ptrdiff_t>(bytes.size())));
            bytes.insert(bytes.begin() + at(1), part.begin(), part.end());
            break;
        }
        default: {  // goes on as another seed does
            bytes.resize(static_cast<std::size_t>(at(1)));
            const input& other = seeds[random.below(seeds.size())];
            if (other.empty()) break;
            const auto from = static_cast<std::ptrdiff_t>(random.below(other.size()));
            bytes.insert(bytes.end(), other.begin() + from, other.end());
        }
    }
    if (bytes.size() > size_max) bytes.resize(size_max);
}

void try_one(const fuzz::target& tried, input bytes) {
    input_now = std::move(bytes);
    tried.run(input_now);
}

std::uint64_t try_for(const fuzz::target& tried, std::chrono::duration<double> limit) {
    const std::vector<input> seeds = seeds_of(tried.name);
    INFO("tests/fuzz/seeds/" << tried.name << ".txt has no seeds");
    REQUIRE(!seeds.empty());
    for (const input& seed : seeds) try_one(tried, seed);
    random_numbers random{0x9e3779b97f4a7c15U};
    const auto end = std::chrono::steady_clock::now() + limit;
    std::uint64_t runs = seeds.size();
    for (; std::chrono::steady_clock::now() < end; ++runs) {
        input bytes = seeds[random.below(seeds.size())];
        for (std::size_t n = 1 + random.below(8); n != 0; --n) mutate(bytes, seeds, random);
        try_one(tried, std::move(bytes));
    }
    return runs;
}

}  // namespace

TEST_CASE("no bytes break a fuzz target") {
    const char* const only = std::getenv("RINGLOOP_FUZZ_TARGET");
    const char* const given = std::getenv("RINGLOOP_FUZZ_INPUT");
    const char* const seconds = std::getenv("RINGLOOP_FUZZ_SECONDS");
    if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(&tell_input);
    for (const int number : {SIGABRT, SIGSEGV}) std::signal(number, tell_and_die);
    std::size_t tried = 0;
    for (const fuzz::target& each : fuzz::targets()) {
        if (only != nullptr && each.name != only) continue;
        ++tried;
        target_now = each.name;
        if (given != nullptr) {
            try_one(each, from_line(given));
            continue;
        }
        const auto runs = try_for(
            each,
            std::chrono::duration<double>(seconds != nullptr ? std::strtod(seconds, nullptr) : 1));
        std::cout << "  " << each.name << ": " << runs << " runs" << std::endl;
    }
    for (const int number : {SIGABRT, SIGSEGV}) std::signal(number, SIG_DFL);
    CHECK(tried >= (only != nullptr ? 1U : 10U));
}
