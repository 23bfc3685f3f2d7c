// The outermost loop of sync_wait(): turns until the root coroutine has ended.
#include "ringloop/sync_wait.hpp"

#include <optional>
#include <stdexcept>

#include "detail/owner_sleep.hpp"
#include "ringloop/detail/remote_stop.hpp"

namespace ringloop::detail {

void root::run(scheduler& home, stop_scope& scope, const std::stop_token& token,
               bool (*wants_stop)(void*), void* context) {
    if (scheduler::current() == &home)
        throw std::logic_error(
            "ringloop: sync_wait() inside of a turn of the same scheduler would wait for itself: "
            "co_await the task");
    const scheduler::entry inside(home);
    handle_.promise().scope = &scope;
    std::optional<remote_stop> stopper;
    if (token.stop_possible()) stopper.emplace(token, scope, home);
    home.schedule(handle_);
    spin_policy spin;
    while (true) {
        if (wants_stop != nullptr && wants_stop(context)) {
            scope.request_stop();
            wants_stop = nullptr;
        }
        home.run_native();
        home.run_host();
        if (handle_.done()) break;
        owner_sleep(home, spin, wants_stop, context);
    }
    stopper.reset();
    home.run_native();  // a stop request that was still on its way
}

}  // namespace ringloop::detail
