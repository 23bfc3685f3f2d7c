// scheduler_pool: several threads, each with a scheduler of its own, each on a processor of its
// own.
//
//     task<void> serve(endpoint at) {
//         scheduler_pool pool;                            // a thread for each processor
//         co_await on_each(pool, [&](unsigned) { return accept_on(at, {.reuse_port = true}); });
//     }
//
// Nothing moves between schedulers by itself. Two ways to share connections out:
//  - each scheduler listens on the same port with listen_options::reuse_port, and the kernel deals
//    connections out (on_each above);
//  - one accepts and hands sockets over: on(pool[i], session(stream.release())), where session()
//    makes a stream of the socket on the scheduler it runs on.
// Thread: made and destroyed on one thread, which is none of its own; pool[i] from any.
// Lifetime: all that runs on the pool has ended before the pool is destroyed: on(), on_each() and
// remote_task see to that.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "ringloop/on.hpp"
#include "ringloop/task_group.hpp"

namespace ringloop {

struct scheduler_pool_options {
    unsigned threads = 0;  // 0: one for each processor that this process may run on
    bool placed = true;    // thread i stays on the i-th of those processors
    driver_config driver{};
};

class scheduler_pool {
  public:
    // Returns when all of them run. Throws what the making of a driver or of a thread throws; then
    // none is left.
    explicit scheduler_pool(const scheduler_pool_options& options = {});
    // Stops and joins.
    ~scheduler_pool();
    scheduler_pool(const scheduler_pool&) = delete;
    scheduler_pool& operator=(const scheduler_pool&) = delete;

    [[nodiscard]] std::size_t size() const noexcept { return members_.size(); }
    [[nodiscard]] scheduler& operator[](std::size_t index) noexcept;

  private:
    struct member;
    std::vector<std::unique_ptr<member>> members_;
};

namespace detail {
template <class T>
task<T> run_on(scheduler& there, task<T> work) {
    co_return co_await on(there, std::move(work));
}
}  // namespace detail

// Runs make(i), a task<void>, on every scheduler of the pool. Returns when all have ended; the
// first failure stops the others and is thrown after that. make() is called here, in order.
// Cancel: passed on to all.
template <class Make>
task<void> on_each(scheduler_pool& pool, Make make) {
    auto start = [&](task_group& group) -> task<void> {
        for (std::size_t i = 0; i < pool.size(); ++i)
            group.spawn(detail::run_on(pool[i], make(static_cast<unsigned>(i))));
        co_return;
    };
    co_await with_group(start);
}

}  // namespace ringloop
