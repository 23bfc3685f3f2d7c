// ring_nop: what one no-op costs, through the driver and on a bare ring of the same flags, in
// turns.
//
// Prints for each batch size the median over rounds of both, in nanoseconds per operation, and at
// the end `ratio=` of the two at batch 64. One thread; pin it (taskset) for steady figures.
#include <liburing.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "ringloop/driver.hpp"

namespace {

constexpr int rounds = 9;
constexpr int batch_max = 64;

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

int completed = 0;

double through_driver(ringloop::driver& d, int batch, int turns) {
    static ringloop::operation ops[batch_max];
    for (auto& op : ops) {
        op.on_complete = [](ringloop::operation&, const ringloop::completion&) noexcept {
            ++completed;
        };
    }
    const std::int64_t start = now_ns();
    for (int turn = 0; turn < turns; ++turn) {
        for (int i = 0; i < batch; ++i) {
            ops[i].prepare_nop();
            d.submit(ops[i]);
        }
        completed = 0;
        while (completed < batch) {
            d.wait({});
            d.dispatch(ringloop::phase::native);
        }
    }
    return static_cast<double>(now_ns() - start) / turns / batch;
}

double bare(io_uring& ring, int batch, int turns) {
    const std::int64_t start = now_ns();
    for (int turn = 0; turn < turns; ++turn) {
        for (int i = 0; i < batch; ++i) ::io_uring_prep_nop(::io_uring_get_sqe(&ring));
        int seen = 0;
        ::io_uring_submit_and_wait(&ring, static_cast<unsigned>(batch));
        io_uring_cqe* cqe = nullptr;
        unsigned head = 0;
        io_uring_for_each_cqe(&ring, head, cqe)++ seen;
        ::io_uring_cq_advance(&ring, static_cast<unsigned>(seen));
    }
    return static_cast<double>(now_ns() - start) / turns / batch;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

int main() {
    const auto d = ringloop::make_driver({.choice = ringloop::backend::uring});
    io_uring ring{};
    io_uring_params p{};
    p.flags = IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL;
    if (::io_uring_queue_init_params(256, &ring, &p) != 0) return 1;
    double ratio = 0;
    std::printf("%6s %10s %10s  ns per no-op\n", "batch", "driver", "bare ring");
    for (const int batch : {1, 4, 16, 64}) {
        std::vector<double> ours;
        std::vector<double> theirs;
        for (int round = 0; round < rounds; ++round) {
            const int turns = 40'000 / batch;
            ours.push_back(through_driver(*d, batch, turns));
            theirs.push_back(bare(ring, batch, turns));
        }
        ratio = median(ours) / median(theirs);
        std::printf("%6d %10.1f %10.1f\n", batch, median(ours), median(theirs));
    }
    std::printf("ratio=%.3f\n", ratio);
    ::io_uring_queue_exit(&ring);
}
