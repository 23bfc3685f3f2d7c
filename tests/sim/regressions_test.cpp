// Faults that simulated runs have found, each told by what used to happen.
#include <catch2/catch.hpp>

#include "ringloop/sync_wait.hpp"
#include "streams.hpp"

using namespace sim;
using namespace ringloop::testing;

namespace {

// The number of the first step of that kind in a clean run.
std::uint64_t first_step(const std::vector<step_record>& steps, step_kind kind) {
    for (std::uint64_t i = 0; i < steps.size(); ++i)
        if (steps[i].kind == kind) return i;
    FAIL("no such step");
    return 0;
}

}  // namespace

// A listener that closed while its accept was ending by EMFILE had cancelled its retry timer before
// that end set it again: the timer fired into freed memory.
TEST_CASE("a listener closed while descriptors run out leaves no timer behind") {
    fake_config config;
    config.kernel.descriptors_max = 2;
    const auto run = [&] {
        auto body = make_fake_driver(config);
        fake_driver& io = *body;
        rl::scheduler home(std::move(body));
        rl::sync_wait(home, [](rl::scheduler& on) -> task<void> {
            auto listener = tcp_listener::bind(on, at(1));
            tcp_stream client = co_await tcp_stream::connect(at(1));
            try {
                co_await rl::with_timeout(10us, [](tcp_listener& from) -> task<void> {
                    auto stream = co_await from.accept();
                }(listener));
            } catch (const rl::timed_out&) {
            }
        }(home));
        CHECK(home.timers().size() == 0);
        return io.record(step_domain::work);
    };
    const std::uint64_t accept = first_step(run(), step_kind::accept);
    config.plan = {{step_domain::work, accept, {fault_kind::late, 1'000'000}}};
    run();
}
