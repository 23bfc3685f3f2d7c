// Helpers of the kernels' tests: a home that collects finished jobs, jobs made of lambdas, random
// bytes that are the same in every run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <random>
#include <vector>

#include "ringloop/bridge/core/job.hpp"

namespace kernel_tests {

class collecting_home {
  public:
    ringloop::bridge::job_home handle() { return {this, &collecting_home::post}; }
    // Blocks until `count` jobs have come home, then runs on_finish of each on this thread.
    void receive(std::size_t count) {
        std::unique_lock lock(mutex_);
        arrived_.wait(lock, [&] { return jobs_.size() >= count; });
        const auto jobs = std::move(jobs_);
        jobs_.clear();
        lock.unlock();
        for (ringloop::posted* job : jobs) job->run(*job);
    }

  private:
    static void post(void* context, ringloop::posted& node) noexcept {
        auto& self = *static_cast<collecting_home*>(context);
        const std::lock_guard lock(self.mutex_);
        self.jobs_.push_back(&node);
        self.arrived_.notify_all();
    }
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::vector<ringloop::posted*> jobs_;
};

class lambda_job : public ringloop::bridge::job {
  public:
    lambda_job(collecting_home& where, std::function<void(lambda_job&)> body)
        : body_(std::move(body)) {
        home = where.handle();
        on_finish = [](ringloop::bridge::job& self) noexcept {
            static_cast<lambda_job&>(self).finished += 1;
        };
    }
    void run() override {
        ran = true;
        body_(*this);
    }
    bool ran = false;
    int finished = 0;

  private:
    std::function<void(lambda_job&)> body_;
};

// A gate that jobs wait at.
class gate {
  public:
    void open() {
        const std::lock_guard lock(mutex_);
        open_ = true;
        changed_.notify_all();
    }
    void pass() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return open_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool open_ = false;
};

inline std::vector<std::uint8_t> random_bytes(std::size_t count, unsigned seed = 1) {
    std::mt19937 generator(seed);
    std::vector<std::uint8_t> bytes(count);
    for (auto& byte : bytes) byte = static_cast<std::uint8_t>(generator());
    return bytes;
}

}  // namespace kernel_tests
