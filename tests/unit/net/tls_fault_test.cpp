// A whole TLS session on the simulated kernel, with every single fault at every step of it: what is
// harmless is not noticed, and whatever else happens, nobody reads a clean end too early.
#include "unit/net/tls_support.hpp"

using namespace test;  // NOLINT

namespace {

struct side {
    std::string read;
    outcome end;
};

rl::task<std::size_t> question(rl::task<tls_stream> handshake, side& own, std::string text) {
    auto stream = co_await std::move(handshake);
    co_await stream.write_all(text);
    co_await stream.close_notify();
    std::string piece = co_await read_text(stream);
    while (!piece.empty()) {
        own.read += piece;
        piece = co_await read_text(stream);
    }
    co_return own.read.size();
}

rl::task<std::size_t> answer(rl::task<tls_stream> handshake, side& own, std::string text) {
    auto stream = co_await std::move(handshake);
    std::string piece = co_await read_text(stream);
    while (!piece.empty()) {
        own.read += piece;
        piece = co_await read_text(stream);
    }
    co_await stream.write_all(text);
    static_cast<void>(co_await stream.shutdown());
    co_return own.read.size();
}

rl::task<void> note(rl::task<std::size_t> work, outcome& end) {
    end = co_await outcome_of(std::move(work));
}

class session {
  public:
    session() : question_(pattern(5000, 1)), answer_(pattern(5000, 2)) {}

    // Returns the steps of the domain "work".
    std::vector<rl::testing::step_record> run(std::vector<rl::testing::planned_fault> plan,
                                              bool harmless) {
        rl::testing::fake_config config;
        config.kernel.socket_buffer = 2048;  // sends go on in the background
        config.plan = std::move(plan);
        auto body = std::make_unique<rl::testing::fake_driver>(config);
        auto& driver = *body;
        rl::scheduler home(std::move(body));
        rl::sync_wait(home, both());
        check(asked_, answer_, harmless);
        check(answered_, question_, harmless);
        CHECK(home.io().in_flight() == 0);
        CHECK(home.io().leased_buffers() == 0);
        CHECK(driver.violations().empty());
        return driver.record(rl::testing::step_domain::work);
    }

  private:
    rl::task<void> both() {
        asked_ = {};
        answered_ = {};
        auto pair = co_await connected();
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(
                note(question(tls_stream::connect(client_, std::move(pair.near), "server.test"),
                              asked_, question_),
                     asked_.end));
            group.spawn(
                note(answer(tls_stream::accept(server_, std::move(pair.far)), answered_, answer_),
                     answered_.end));
            co_return;
        });
    }
    // Who has ended well has read a clean end.
    static void check(const side& own, const std::string& sent, bool harmless) {
        CAPTURE(own.end.what);
        if (harmless) CHECK(own.end.well());
        if (own.end.well()) CHECK((own.read == sent));
        CHECK((own.read == std::string_view(sent).substr(0, own.read.size())));
    }

    const std::string question_;
    const std::string answer_;
    const tls_context client_ = tls_context::client(trusting());
    const tls_context server_ = tls_context::server(serving());
    side asked_;
    side answered_;
};

}  // namespace

TEST_CASE("every single fault at every step of a TLS session", "[net][tls]") {
    session both;
    const auto clean = both.run({}, true);
    std::size_t begin = 0;
    while (clean[begin].kind != rl::testing::step_kind::try_send) ++begin;
    std::size_t runs = 0;
    for (std::size_t i = begin; i < clean.size(); ++i) {
        for (const auto& fault : rl::testing::applicable_faults(clean[i])) {
            const rl::testing::planned_fault planned{rl::testing::step_domain::work, i, fault};
            INFO(to_text(planned) << " at " << to_text(clean[i]));
            static_cast<void>(both.run({planned}, harmless(clean[i], fault)));
            ++runs;
        }
    }
    CHECK(runs > 200);
}
