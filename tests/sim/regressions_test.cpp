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

// What the simulated kernel decided while the scenario ran, which left no timer behind.
std::vector<step_record> steps_of(const fake_config& config,
                                  task<void> (*scenario)(rl::scheduler& on)) {
    auto body = make_fake_driver(config);
    fake_driver& io = *body;
    rl::scheduler home(std::move(body));
    rl::sync_wait(home, scenario(home));
    CHECK(home.timers().size() == 0);
    return io.record(step_domain::work);
}

}  // namespace

// A listener that closed while its accept was ending by EMFILE had cancelled its retry timer before
// that end set it again: the timer fired into freed memory.
TEST_CASE("a listener closed while descriptors run out leaves no timer behind") {
    fake_config config;
    config.kernel.descriptors_max = 2;
    const auto scenario = [](rl::scheduler& on) -> task<void> {
        auto listener = tcp_listener::bind(on, at(1));
        tcp_stream client = co_await tcp_stream::connect(at(1));
        try {
            co_await rl::with_timeout(10us, [](tcp_listener& from) -> task<void> {
                auto stream = co_await from.accept();
            }(listener));
        } catch (const rl::timed_out&) {
        }
    };
    const std::uint64_t accept = first_step(steps_of(config, scenario), step_kind::accept);
    config.plan = {{step_domain::work, accept, {fault_kind::late, 1'000'000}}};
    steps_of(config, scenario);
}

// ENETDOWN, EHOSTUNREACH and the like tell of one connection that is gone before it was accepted.
// They ended accept(), and with it the server.
TEST_CASE("a listener outlives the network error of one connection") {
    const int error = GENERATE(ENETDOWN, EHOSTUNREACH, EPROTO, ENOPROTOOPT);
    fake_config config;
    const auto scenario = [](rl::scheduler& on) -> task<void> {
        auto listener = tcp_listener::bind(on, at(1));
        tcp_stream client = co_await tcp_stream::connect(at(1));
        tcp_stream server = co_await listener.accept();
    };
    const std::uint64_t accept = first_step(steps_of(config, scenario), step_kind::accept);
    config.plan = {{step_domain::work, accept, {fault_kind::error, error}}};
    steps_of(config, scenario);
}

// retire() started ended operations again, which filled the submission queue and so brought the
// completion that it wants; then it slept for ever, waiting for a further one.
TEST_CASE("retire() sees a completion that came while it started others again") {
    struct counter : rl::operation {
        explicit counter(rl::driver& d) : operation(&counter::note), io(d) {}
        static void note(rl::operation& op, const rl::completion& c) noexcept {
            auto& self = static_cast<counter&>(op);
            if (c.buffer != rl::no_buffer) self.io.release_buffer(c.buffer);
            self.last = c.result;
        }
        rl::driver& io;
        int last = 0;
    };
    fake_config config;
    config.driver.submission_entries = 2;
    config.plan = {{step_domain::work, 1, {fault_kind::end_multishot, 0}}};
    fake_driver d(config);
    int busy[2], idle[2];
    REQUIRE(d.kernel().socket_pair(busy) == 0);
    REQUIRE(d.kernel().socket_pair(idle) == 0);
    counter ended(d), retired(d);
    ended.prepare_receive(busy[0], true);
    d.submit(ended);
    retired.prepare_receive(idle[0], true);
    d.submit(retired);
    const iovec piece = {const_cast<char*>("x"), 1};
    REQUIRE(d.try_send(busy[1], {&piece, 1}) == 1);
    d.poll();
    REQUIRE(d.faults_injected() == 1);
    bool slept_for_ever = false;
    d.on_failure = [&](const std::string&) {
        slept_for_ever = true;
        d.after(0, [] {});
    };
    d.retire(retired);
    CHECK(retired.last == -ECANCELED);
    CHECK_FALSE(slept_for_ever);
    d.retire(ended);
}
