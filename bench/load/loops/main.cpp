// loopclient KEY=VALUE…: the load of `./dev bench loops`; options.hpp has the keys.
// loopclient listen: accepts on a port of its own, which it prints, until its standard input ends.
//
// Prints one line of JSON about the measured time: answers, seconds, CPU seconds of the server,
// latencies in microseconds. The first failure or wrong answer ends it with status 1 and a sentence
// on stderr. One thread.
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>

#include "engine.hpp"
#include "listener.hpp"
#include "options.hpp"

namespace {

void allow_descriptors() {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

void report(load::outcome& made) {
    auto& all = made.latencies_ns;
    std::sort(all.begin(), all.end());
    const auto at_us = [&](std::size_t per_mille) {
        return static_cast<double>(all[std::min(all.size() - 1, all.size() * per_mille / 1000)]) /
               1000;
    };
    std::printf(
        "{\"answers\": %zu, \"seconds\": %.6f, \"server_cpu_seconds\": %.9f, \"p50_us\": %.2f, "
        "\"p99_us\": %.2f, \"p999_us\": %.2f, \"repeated\": %llu, \"flood_bytes\": %llu}\n",
        all.size(), made.seconds, made.server_cpu_seconds, at_us(500), at_us(990), at_us(999),
        static_cast<unsigned long long>(made.repeated),
        static_cast<unsigned long long>(made.flood_bytes));
}

}  // namespace

int main(int count, char** words) {
    allow_descriptors();
    std::signal(SIGPIPE, SIG_IGN);  // OpenSSL writes without MSG_NOSIGNAL
    try {
        if (count == 2 && std::strcmp(words[1], "listen") == 0) {
            load::listen_and_hold();
            return 0;
        }
        load::engine engine(load::read_options(count, words));
        load::outcome made = engine.run();
        report(made);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "loopclient: %s\n", error.what());
        return 1;
    }
    return 0;
}
