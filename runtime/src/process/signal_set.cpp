// signal_set: the wait. Catching is driver/signal_catcher.cpp's.
#include <poll.h>

#include <stdexcept>

#include "driver/signal_catcher.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/ready.hpp"
#include "ringloop/process/signal.hpp"

namespace ringloop {

signal_set::signal_set(std::span<const int> numbers)
    : catcher_(std::make_unique<detail::signal_catcher>(numbers)) {}
signal_set::signal_set(signal_set&&) noexcept = default;
signal_set& signal_set::operator=(signal_set&&) noexcept = default;
signal_set::~signal_set() = default;

task<int> signal_set::next() {
    if (catcher_ == nullptr) throw std::logic_error("ringloop: a signal_set that was moved from");
    return next_of(*catcher_);
}

task<int> signal_set::next_of(detail::signal_catcher& catcher) {
    const stop_scope* scope = co_await current_scope();
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
    while (true) {
        if (const int number = catcher.take(); number != 0) co_return number;
        co_await net::ready(catcher.descriptor(), POLLIN);
    }
}

}  // namespace ringloop
