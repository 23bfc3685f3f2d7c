// loadclient PLAN PORT CONNECTIONS WARM-SECONDS SECONDS [REQUESTS-PER-SECOND]
//
// Keeps one request in flight on each connection, in a closed loop or, given a rate, with pauses
// that hold all connections together to it, and prints one JSON line: requests and latencies
// (microseconds) of the measured time, in all and for each kind. The first failure or wrong answer
// ends it with status 1 and a sentence on stderr. One thread; SIGTERM ends it at once.
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "clock.hpp"
#include "connection.hpp"
#include "pauses.hpp"
#include "plan.hpp"

namespace {

using load::connection;
using load::kind;
using load::now_ns;

void watch(int epoll, connection& what, std::size_t index, int change) {
    epoll_event event{};
    event.events = EPOLLIN | (what.wants_write() ? static_cast<unsigned>(EPOLLOUT) : 0U);
    event.data.u64 = index;
    epoll_ctl(epoll, change, what.descriptor(), &event);
}

// Fills the kinds' latencies; returns the measured time in ns.
std::int64_t drive(load::plan& plan, std::uint16_t port, std::size_t connections,
                   std::int64_t warm_ns, std::int64_t measured_ns, double per_second) {
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    std::vector<std::unique_ptr<connection>> all;
    for (std::size_t index = 0; index < connections; ++index)
        all.push_back(std::make_unique<connection>(port));
    std::vector<bool> watched(connections);
    const auto begin = [&](std::size_t index) {
        all[index]->begin(plan.kinds()[plan.next()]);
        if (watched[index] && !all[index]->wants_write()) return;
        watch(epoll, *all[index], index, watched[index] ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
        watched[index] = true;
    };
    load::pauses pauses(connections, per_second, now_ns());
    const auto begin_due = [&] {
        while (pauses.has_due(now_ns())) begin(pauses.take());
    };
    const std::int64_t from_ns = now_ns() + warm_ns;
    const std::int64_t until_ns = from_ns + measured_ns;
    std::vector<epoll_event> events(connections);
    while (true) {
        begin_due();
        const int count = epoll_wait(epoll, events.data(), static_cast<int>(events.size()),
                                     pauses.wait_ms(now_ns()));
        const std::int64_t now = now_ns();
        if (now >= until_ns) break;
        for (int at = 0; at < count; ++at) {
            const std::size_t index = events[static_cast<std::size_t>(at)].data.u64;
            connection& one = *all[index];
            const bool wrote_before = one.wants_write();
            if (one.advance()) {
                if (now >= from_ns)
                    one.current().latencies_us.push_back(
                        static_cast<std::uint32_t>((now_ns() - one.began_ns()) / 1000));
                pauses.rest(index, one.began_ns());
                begin_due();
            }
            if (wrote_before && !one.wants_write()) watch(epoll, one, index, EPOLL_CTL_MOD);
        }
    }
    close(epoll);
    return measured_ns;
}

void print_latencies(std::vector<std::uint32_t>& latencies) {
    std::sort(latencies.begin(), latencies.end());
    const auto at = [&](std::size_t percent) {
        return latencies.empty()
                   ? 0U
                   : latencies[std::min(latencies.size() - 1, latencies.size() * percent / 100)];
    };
    std::printf("\"requests\": %zu, \"p50_us\": %u, \"p99_us\": %u", latencies.size(), at(50),
                at(99));
}

void report(const std::vector<kind>& kinds, std::int64_t elapsed_ns) {
    std::vector<std::uint32_t> all;
    std::map<std::string, std::vector<std::uint32_t>> by_name;
    for (const kind& one : kinds)
        for (std::vector<std::uint32_t>* into : {&all, &by_name[one.name]})
            into->insert(into->end(), one.latencies_us.begin(), one.latencies_us.end());
    std::printf("{\"seconds\": %.3f, ", static_cast<double>(elapsed_ns) / 1e9);
    print_latencies(all);
    std::printf(", \"kinds\": {");
    const char* separator = "";
    for (auto& [name, latencies] : by_name) {
        std::printf("%s\"%s\": {", separator, name.c_str());
        print_latencies(latencies);
        std::printf("}");
        separator = ", ";
    }
    std::printf("}}\n");
}

}  // namespace

int main(int count, char** words) {
    if (count != 6 && count != 7) {
        std::fprintf(stderr,
                     "usage: loadclient PLAN PORT CONNECTIONS WARM-SECONDS SECONDS "
                     "[REQUESTS-PER-SECOND]\n");
        return 2;
    }
    try {
        load::plan plan(words[1]);
        const auto ns = [](const char* word) {
            return static_cast<std::int64_t>(std::atof(word) * 1e9);
        };
        const auto elapsed_ns =
            drive(plan, static_cast<std::uint16_t>(std::atoi(words[2])),
                  std::max<std::size_t>(1, std::strtoul(words[3], nullptr, 10)), ns(words[4]),
                  ns(words[5]), count == 7 ? std::atof(words[6]) : 0);
        report(plan.kinds(), elapsed_ns);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "loadclient: %s\n", error.what());
        return 1;
    }
    return 0;
}
