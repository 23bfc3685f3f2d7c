// A shared handle without Python: handle PRODUCERS COUNT
//
// One thread reserves tokens and takes what is completed, PRODUCERS threads complete them on a lane
// each, flat out. Prints a line of JSON: completions per second of all, nanoseconds of CPU that one
// costs either side, eventfd writes and sleeps.
//
// Consumer on core 0, producers on core 1 (where there are two).
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "pin.hpp"
#include "ringloop/bridge/core/handle_consumer.hpp"

namespace {

constexpr std::uint32_t slots = 4096;

double seconds(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// Tokens for one producer. The consumer tells of many at once.
struct lane {
    ringloop_token tokens[slots];
    alignas(64) std::atomic<std::size_t> issued{0};
    std::size_t sent = 0;
    std::size_t seen = 0;
    double cpu_s = 0;
};

ringloop_handle make_handle(unsigned lanes) {
    ringloop_handle handle = {};
    void* memory = mmap(nullptr, ringloop_handle_memory_size(lanes, slots), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    ringloop_handle_place(&handle, memory, lanes, slots);
    handle.lane = -1;
    handle.alive_fd = -1;
    handle.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return handle;
}

void produce(ringloop_handle& handle, lane& own, std::size_t count) {
    pin(1);
    for (std::size_t n = 0; n < count;) {
        const std::size_t issued = own.issued.load(std::memory_order_acquire);
        if (n == issued) std::this_thread::yield();
        for (; n < issued; ++n)
            if (ringloop_handle_complete_int(&handle, own.tokens[n % slots],
                                             static_cast<std::int64_t>(n)) != 0)
                std::abort();
    }
    own.cpu_s = seconds(CLOCK_THREAD_CPUTIME_ID);
}

struct consumer {
    ringloop_handle& handle;
    std::vector<std::unique_ptr<lane>>& lanes;
    std::size_t each;
    ringloop::bridge::handle_consumer records{handle};
    std::uint64_t writes = 0;

    void submit(unsigned at) {
        lane& of = *lanes[at];
        while (of.sent < each && of.sent - of.seen < slots) {
            ringloop_token token = 0;
            if (records.reserve(at, &of, token) !=
                ringloop::bridge::handle_consumer::reservation::made)
                std::abort();
            of.tokens[of.sent++ % slots] = token;
        }
        of.issued.store(of.sent, std::memory_order_release);
    }
    void run() {
        std::size_t left = each * lanes.size();
        while (left != 0) {
            for (unsigned at = 0; at < lanes.size(); ++at) submit(at);
            records.drain([&](void* owner, const ringloop_record&) {
                ++static_cast<lane*>(owner)->seen;
                --left;
            });
            if (left == 0 || !records.announce_sleep()) continue;
            pollfd wake{handle.wake_fd, POLLIN, 0};
            poll(&wake, 1, -1);
            eventfd_t count = 0;
            if (eventfd_read(handle.wake_fd, &count) == 0) writes += count;
            records.end_sleep();
        }
    }
};

}  // namespace

int main(int count, char** words) {
    if (count != 3) {
        std::fprintf(stderr, "usage: handle PRODUCERS COUNT\n");
        return 2;
    }
    const auto producers = static_cast<unsigned>(std::atoi(words[1]));
    const std::size_t each = static_cast<std::size_t>(std::atol(words[2])) / producers;
    ringloop_handle handle = make_handle(producers);
    std::vector<std::unique_ptr<lane>> lanes;
    for (unsigned i = 0; i < producers; ++i) lanes.push_back(std::make_unique<lane>());
    consumer taking{handle, lanes, each};
    pin(0);
    const double begin = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_THREAD_CPUTIME_ID);
    std::vector<std::thread> threads;
    for (auto& own : lanes) threads.emplace_back([&] { produce(handle, *own, each); });
    taking.run();
    const double took = seconds(CLOCK_MONOTONIC) - begin;
    const double consumer_s = seconds(CLOCK_THREAD_CPUTIME_ID) - cpu;
    double producers_s = 0;
    for (std::thread& thread : threads) thread.join();
    for (const auto& own : lanes) producers_s += own->cpu_s;
    const auto all = static_cast<double>(each * producers);
    std::printf(
        "{\"per_second\": %.0f, \"producer_ns\": %.1f, \"consumer_ns\": %.1f, \"writes\": %llu, "
        "\"sleeps\": %llu}\n",
        all / took, producers_s / all * 1e9, consumer_s / all * 1e9,
        static_cast<unsigned long long>(taking.writes),
        static_cast<unsigned long long>(taking.records.counted().sleeps));
}
