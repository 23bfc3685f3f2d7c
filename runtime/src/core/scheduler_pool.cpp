// The threads of a scheduler pool. See scheduler_pool.hpp for the contract.
//
// A scheduler is made on the thread that runs it (the ring is bound to its submitter), so the
// constructor waits for each to report its scheduler, or why there is none.
#include "ringloop/scheduler_pool.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cassert>
#include <future>
#include <optional>
#include <thread>

namespace ringloop {

struct scheduler_pool::member {
    scheduler* home = nullptr;
    std::thread thread;

    member() = default;
    member(const member&) = delete;
    member& operator=(const member&) = delete;
    ~member() {
        if (!thread.joinable()) return;
        if (home != nullptr) home->stop();
        thread.join();
    }
};

namespace {

std::vector<int> allowed_processors() {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    std::vector<int> found;
    if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0)
        for (int i = 0; i < CPU_SETSIZE; ++i)
            if (CPU_ISSET(i, &allowed)) found.push_back(i);
    return found;
}

// Placement is a hint: a container may have taken the processor away meanwhile.
void place(int processor) noexcept {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof one, &one));
}

void serve(driver_config config, int processor, std::promise<scheduler*> made) {
    if (processor >= 0) place(processor);
    config.pinned = true;
    std::optional<scheduler> home;
    try {
        home.emplace(config);
    } catch (...) {
        made.set_exception(std::current_exception());
        return;
    }
    home->hold();  // it runs until it is stopped, whether there is work or not
    made.set_value(&*home);
    home->run();
    home->run_native();  // stop requests that were still on their way
    home->release();
}

}  // namespace

scheduler_pool::scheduler_pool(const scheduler_pool_options& options) {
    const std::vector<int> processors = allowed_processors();
    const std::size_t count =
        options.threads != 0 ? options.threads : std::max<std::size_t>(processors.size(), 1);
    for (std::size_t i = 0; i < count; ++i) {
        const bool placed = options.placed && !processors.empty();
        const int processor = placed ? processors[i % processors.size()] : -1;
        members_.push_back(std::make_unique<member>());
        std::promise<scheduler*> made;
        std::future<scheduler*> coming = made.get_future();
        members_.back()->thread = std::thread(serve, options.driver, processor, std::move(made));
        members_.back()->home = coming.get();
    }
}

scheduler_pool::~scheduler_pool() = default;

scheduler& scheduler_pool::operator[](std::size_t index) noexcept {
    assert(index < members_.size());
    return *members_[index]->home;
}

}  // namespace ringloop
