// wakeups MODE RATE SECONDS: completions from another thread, paced at RATE a second, to a native
// consumer that sleeps in between. Prints JSON: completions, sleeps, wake_writes, latency in us.
//
//  ringloop  scheduler::post() to a thread in scheduler::wait()
//  eventfd   a queue and one eventfd write each, to a thread in epoll_wait()
//
// Consumer on core 0, producer on core 1 (where there are two).
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "pin.hpp"
#include "ringloop/scheduler.hpp"

namespace {

std::int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

struct completion_node : ringloop::posted {
    std::int64_t sent_ns = 0;
    std::int64_t seen_ns = 0;
};

std::vector<completion_node> nodes;
std::size_t seen = 0;

void take(ringloop::posted& node) noexcept {
    static_cast<completion_node&>(node).seen_ns = now_ns();
    ++seen;
}

// Hands out every node at its time; a late one goes at once.
template <typename Post>
void produce(double rate, Post post) {
    pin(1);
    const double gap_ns = 1e9 / rate;
    const std::int64_t begin = now_ns() + 10'000'000;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        const auto due = begin + static_cast<std::int64_t>(gap_ns * static_cast<double>(i));
        while (now_ns() < due) {
        }
        nodes[i].sent_ns = now_ns();
        post(nodes[i]);
    }
}

void report(std::uint64_t sleeps, std::uint64_t writes) {
    std::vector<double> latency;
    for (const completion_node& each : nodes)
        latency.push_back(static_cast<double>(each.seen_ns - each.sent_ns) / 1e3);
    std::sort(latency.begin(), latency.end());
    const auto at = [&](double share) {
        return latency[static_cast<std::size_t>(share * static_cast<double>(latency.size() - 1))];
    };
    std::printf(
        "{\"completions\": %zu, \"sleeps\": %llu, \"wake_writes\": %llu, \"p50_us\": %.3f, "
        "\"p99_us\": %.3f}\n",
        latency.size(), static_cast<unsigned long long>(sleeps),
        static_cast<unsigned long long>(writes), at(0.5), at(0.99));
}

void run_ringloop(double rate) {
    ringloop::scheduler native;
    std::thread producer([&] { produce(rate, [&](completion_node& n) { native.post(n); }); });
    while (seen < nodes.size()) {
        native.wait(ringloop::no_deadline);
        native.run_native();
    }
    producer.join();
    report(native.io().counters().sleeps, native.io().counters().wake_writes);
}

void run_eventfd(double rate) {
    const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    const int poller = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{.events = EPOLLIN, .data = {}};
    epoll_ctl(poller, EPOLL_CTL_ADD, wake, &event);
    ringloop::inbox inbox;
    std::uint64_t sleeps = 0;
    std::thread producer([&] {
        produce(rate, [&](completion_node& n) {
            inbox.push(n);
            eventfd_write(wake, 1);
        });
    });
    while (seen < nodes.size()) {
        ++sleeps;
        epoll_wait(poller, &event, 1, -1);
        eventfd_t count = 0;
        eventfd_read(wake, &count);
        for (ringloop::posted* node = inbox.take_all(); node != nullptr;) {
            ringloop::posted* next = node->next;
            node->run(*node);
            node = next;
        }
    }
    producer.join();
    report(sleeps, nodes.size());
    close(poller);
    close(wake);
}

}  // namespace

int main(int count, char** words) {
    if (count != 4) {
        std::fprintf(stderr, "usage: wakeups ringloop|eventfd RATE SECONDS\n");
        return 2;
    }
    const double rate = std::atof(words[2]);
    nodes = std::vector<completion_node>(static_cast<std::size_t>(rate * std::atof(words[3])));
    for (completion_node& each : nodes) each.run = &take;
    pin(0);
    if (std::string(words[1]) == "ringloop")
        run_ringloop(rate);
    else
        run_eventfd(rate);
}
