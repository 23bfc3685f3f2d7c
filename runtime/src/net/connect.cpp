// Happy eyeballs: a race of connection attempts with head starts.
#include <algorithm>
#include <exception>
#include <optional>

#include "ringloop/error.hpp"
#include "ringloop/net/resolve.hpp"
#include "ringloop/sync/event.hpp"
#include "ringloop/task_group.hpp"
#include "ringloop/when.hpp"

namespace ringloop::net {
namespace {

// The first family keeps its rank, then the other, and so on.
std::vector<endpoint> alternate(const std::vector<endpoint>& addresses) {
    std::vector<endpoint> mixed;
    std::vector<endpoint> same;
    std::vector<endpoint> other;
    for (const endpoint& at : addresses)
        (at.family() == addresses.front().family() ? same : other).push_back(at);
    for (std::size_t i = 0; i < std::max(same.size(), other.size()); ++i) {
        if (i < same.size()) mixed.push_back(same[i]);
        if (i < other.size()) mixed.push_back(other[i]);
    }
    return mixed;
}

struct race {
    std::optional<tcp_stream> winner;
    std::exception_ptr failure;  // of the first that failed
    event failed;
};

task<void> attempt(race& all, task_group& group, endpoint to) {
    try {
        tcp_stream made = co_await tcp_stream::connect(to);
        if (!all.winner) all.winner = std::move(made);
        group.cancel();
    } catch (const error&) {
        if (all.failure == nullptr) all.failure = std::current_exception();
        all.failed.set();
    }
}

task<void> failure_of(race& all) {
    co_await all.failed.wait();
}

task<void> start_in_turn(race& all, task_group& group, std::span<const endpoint> addresses,
                         std::chrono::nanoseconds head_start) {
    for (const endpoint& at : addresses) {
        all.failed.reset();
        group.spawn(attempt(all, group, at));
        if (&at == &addresses.back()) co_return;
        try {
            co_await with_timeout(head_start, failure_of(all));
        } catch (const timed_out&) {
            continue;  // the next one, beside it
        }
    }
}

}  // namespace

task<tcp_stream> connect(std::vector<endpoint> addresses, connect_options options) {
    if (addresses.empty()) throw std::invalid_argument("ringloop: connect() to no address");
    const std::vector<endpoint> order = alternate(addresses);
    race all;
    co_await with_group(
        [&](task_group& group) { return start_in_turn(all, group, order, options.attempt_delay); });
    if (!all.winner) std::rethrow_exception(all.failure);
    co_return std::move(*all.winner);
}

task<tcp_stream> connect(std::string host, std::uint16_t port, connect_options options) {
    co_return co_await connect(co_await resolve(std::move(host), port), options);
}

}  // namespace ringloop::net
