// The time limit of with_timeout().
#include "ringloop/when.hpp"

#include <algorithm>
#include <cstdint>

#include "ringloop/detail/operation_await.hpp"

namespace ringloop::detail {

scope_deadline::scope_deadline(stop_scope& scope, std::chrono::nanoseconds limit)
    : timer(&scope_deadline::fire), home_(running_scheduler()), scope_(scope) {
    const std::int64_t now_ns = home_.now_ns();
    const std::int64_t room_ns = INT64_MAX - now_ns;
    home_.timers().insert(*this, now_ns + std::min(limit.count(), room_ns), now_ns);
}

scope_deadline::~scope_deadline() {
    home_.timers().cancel(*this);
}

void scope_deadline::fire(timer& fired) noexcept {
    auto& self = static_cast<scope_deadline&>(fired);
    self.passed_ = true;
    self.scope_.request_stop();
}

}  // namespace ringloop::detail
