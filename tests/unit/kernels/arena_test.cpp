// The arena keeps the promises of bridge::executor: every job comes home exactly once.
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>

#include "ringloop/kernels/arena.hpp"
#include "support.hpp"

using kernel_tests::collecting_home;
using kernel_tests::gate;
using kernel_tests::lambda_job;
using ringloop::kernels::arena;

TEST_CASE("a thousand jobs all run and come home once") {
    collecting_home home;
    arena workers(2);
    std::atomic<int> ran{0};
    std::vector<std::unique_ptr<lambda_job>> jobs;
    for (int i = 0; i < 1000; ++i) {
        jobs.push_back(std::make_unique<lambda_job>(home, [&](lambda_job&) { ++ran; }));
        workers.submit(*jobs.back());
    }
    home.receive(1000);
    CHECK(ran == 1000);
    for (const auto& job : jobs) CHECK(job->finished == 1);
}

TEST_CASE("what a job throws is kept in it") {
    collecting_home home;
    arena workers(1);
    lambda_job job(home, [](lambda_job&) { throw std::out_of_range("far away"); });
    workers.submit(job);
    home.receive(1);
    REQUIRE(job.error);
    CHECK_THROWS_AS(std::rethrow_exception(job.error), std::out_of_range);
}

TEST_CASE("a job that was stopped before its turn comes home without having run") {
    collecting_home home;
    arena workers(1);
    gate hold;
    lambda_job first(home, [&](lambda_job&) { hold.pass(); });
    lambda_job second(home, [](lambda_job&) {});
    workers.submit(first);
    workers.submit(second);
    second.request_stop();
    hold.open();
    home.receive(2);
    CHECK(first.ran);
    CHECK_FALSE(second.ran);
    CHECK(second.finished == 1);
}

TEST_CASE("ending the arena stops the running job and delivers queued ones unrun") {
    collecting_home home;
    gate begun;
    lambda_job running(home, [&](lambda_job& self) {
        begun.open();
        while (!self.stop_requested()) {
        }
    });
    lambda_job queued(home, [](lambda_job&) {});
    {
        arena workers(1);
        workers.submit(running);
        begun.pass();
        workers.submit(queued);
    }
    home.receive(2);
    CHECK(running.finished == 1);
    CHECK_FALSE(queued.ran);
    CHECK(queued.finished == 1);
}

TEST_CASE("a stopped arena delivers new jobs unrun") {
    collecting_home home;
    arena workers(1);
    workers.stop_all();
    lambda_job late(home, [](lambda_job&) {});
    workers.submit(late);
    home.receive(1);
    CHECK_FALSE(late.ran);
}

TEST_CASE("workers run at nice 19 and leave the caller's priority alone") {
    collecting_home home;
    arena workers(1);
    int nice_inside = -1;
    const int before = getpriority(PRIO_PROCESS, 0);
    lambda_job job(home, [&](lambda_job&) {
        nice_inside = getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
    });
    workers.submit(job);
    home.receive(1);
    CHECK(nice_inside == 19);
    CHECK(getpriority(PRIO_PROCESS, 0) == before);
}

TEST_CASE("for_each_block runs each index once") {
    collecting_home home;
    arena workers(2);
    std::vector<std::atomic<int>> counts(1000);
    lambda_job job(home, [&](lambda_job&) {
        workers.for_each_block(
            counts.size(),
            [](void* context, std::size_t index) {
                (*static_cast<std::vector<std::atomic<int>>*>(context))[index]++;
            },
            &counts);
    });
    workers.submit(job);
    home.receive(1);
    for (const auto& count : counts) CHECK(count == 1);
}

TEST_CASE("a block that throws ends its job with that exception") {
    collecting_home home;
    arena workers(2);
    lambda_job job(home, [&](lambda_job&) {
        workers.for_each_block(
            100,
            [](void*, std::size_t index) {
                if (index == 50) throw std::range_error("50");
            },
            nullptr);
    });
    workers.submit(job);
    home.receive(1);
    REQUIRE(job.error);
    CHECK_THROWS_AS(std::rethrow_exception(job.error), std::range_error);
}

TEST_CASE("a forked child is told that the shared arena is gone") {
    (void)arena::shared();
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        try {
            (void)arena::shared();
            _exit(1);
        } catch (const std::runtime_error&) {
            arena::stop_shared();  // must not wait for threads that are not there
            _exit(0);
        }
    }
    int status = -1;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}
