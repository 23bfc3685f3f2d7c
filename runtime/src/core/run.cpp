// run(): signals turned into a stop request.
//
// The handler only sets a flag and wakes the driver, both of which are safe in a signal handler;
// the scope is stopped on the scheduler's thread, between two turns. The handler may run on any
// thread while run() ends on its own: run() first takes the scheduler away from it, and then waits
// until no handler is at work.
#include "ringloop/run.hpp"

#include <sched.h>

#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <csignal>
#include <stdexcept>

#include "ringloop/error.hpp"
#include "ringloop/sync_wait.hpp"

namespace ringloop {
namespace {

constexpr std::array<int, 2> stop_signals{SIGINT, SIGTERM};
std::atomic<scheduler*> running{nullptr};
std::atomic<bool> signalled{false};
std::atomic<unsigned> handlers_running{0};

// A second signal ends the process, as if there were no handler.
void on_signal(int number) noexcept {
    const int saved = errno;
    handlers_running.fetch_add(1);
    if (scheduler* home = running.load()) {
        struct sigaction usual {};
        usual.sa_handler = SIG_DFL;
        sigaction(number, &usual, nullptr);
        signalled.store(true);
        home->io().wake();
    }
    handlers_running.fetch_sub(1);
    errno = saved;
}

class signal_guard {
  public:
    explicit signal_guard(scheduler& home) {
        scheduler* none = nullptr;
        if (!running.compare_exchange_strong(none, &home))
            throw std::logic_error("ringloop::run: another run() is active in this process");
        signalled.store(false);
        struct sigaction ours {};
        ours.sa_handler = [](int number) { on_signal(number); };
        sigemptyset(&ours.sa_mask);
        for (std::size_t i = 0; i < stop_signals.size(); ++i)
            sigaction(stop_signals[i], &ours, &previous_[i]);
    }
    ~signal_guard() {
        running.store(nullptr);
        while (handlers_running.load() != 0) ::sched_yield();
        for (std::size_t i = 0; i < stop_signals.size(); ++i)
            sigaction(stop_signals[i], &previous_[i], nullptr);
    }
    signal_guard(const signal_guard&) = delete;
    signal_guard& operator=(const signal_guard&) = delete;

  private:
    std::array<struct sigaction, 2> previous_{};
};

}  // namespace

int run(task<void> work, const driver_config& config) {
    driver_config here = config;
    here.pinned = true;
    scheduler home(here);
    result<void> outcome;
    stop_scope scope;
    {
        const signal_guard guard(home);
        detail::root root = detail::run_into(std::move(work), outcome);
        root.run(
            home, scope, {}, [](void*) { return signalled.load(); }, nullptr);
    }
    try {
        outcome.take();
    } catch (const operation_cancelled&) {
        if (!scope.stop_requested()) throw;
    }
    return 0;
}

}  // namespace ringloop
