// The task graph: order, what is due, failures and cancels, refusals, drawings.
#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "unit/net/runner.hpp"

using namespace test;  // NOLINT

namespace {

using strings = std::vector<std::string>;
using std::chrono::hours;

rl::task<int> later(int value) {
    co_await rl::yield();
    co_return value;
}
rl::task<void> forever() {
    co_await rl::sleep_for(hours(1000));
}

// a -> b -> d, a -> c -> d; beside them e, which depends on x alone.
struct diamond {
    rl::graph g;
    rl::graph_input<int> a = g.input("a", 1);
    rl::graph_input<int> x = g.input("x", 100);
    rl::graph_node<int> b = g.node(
        "b", [](const int& v) { return later(v + 1); }, a);
    rl::graph_node<int> c = g.offload(
        "c", [](const int& v) { return v * 10; }, a);
    rl::graph_node<int> d = g.node(
        "d", [](const int& l, const int& r) { return l + r; }, b, c);
    rl::graph_node<int> e = g.node(
        "e", [](const int& v) { return v + 1; }, x);
};

strings sorted(strings names) {
    std::sort(names.begin(), names.end());
    return names;
}

std::string text_of_nested(const std::exception& outer) {
    std::string text = outer.what();
    try {
        std::rethrow_if_nested(outer);
    } catch (const std::exception& inner) {
        text += " | " + text_of_nested(inner);
    }
    return text;
}
template <class T>
std::string failure_of(const rl::graph_node<T>& node) {
    try {
        static_cast<void>(node.value());
    } catch (const std::exception& e) {
        return text_of_nested(e);
    }
    return "none";
}

}  // namespace

TEST_CASE("a graph runs coroutines, functions and pool functions in order", "[graph]") {
    const auto body = GENERATE(from_range(rl::testing::real_bodies()));
    CAPTURE(body);
    runner r(body);
    diamond all;
    const rl::graph_report report = r.run(all.g.run());
    CHECK(all.d.value() == 12);
    CHECK(all.e.value() == 101);
    CHECK(sorted(report.ran) == strings{"b", "c", "d", "e"});
    CHECK(report.ran.back() == "d");
    CHECK(report.kept == 0);
    CHECK(all.d.state() == rl::node_state::done);
}

TEST_CASE("a change of one input runs its descendants again, and nothing else", "[graph]") {
    runner r(rl::testing::real_bodies().back());
    diamond all;
    r.run(all.g.run());
    CHECK(r.run(all.g.run()).ran.empty());
    all.x.set(7);
    CHECK(all.g.due() == strings{"e"});
    CHECK(r.run(all.g.run()).ran == strings{"e"});
    all.a.set(2);
    const rl::graph_report report = r.run(all.g.run());
    CHECK(sorted(report.ran) == strings{"b", "c", "d"});
    CHECK(report.kept == 1);
    CHECK(all.d.value() == 23);
    all.c.touch();
    CHECK(r.run(all.g.run()).ran == strings{"c", "d"});
    CHECK(all.b.runs() == 2);
    CHECK(all.c.runs() == 3);
    CHECK(all.e.runs() == 2);
}

TEST_CASE("a run of one target leaves the others due", "[graph]") {
    runner r(rl::testing::real_bodies().back());
    diamond all;
    r.run(all.g.run());
    all.a.set(2);
    CHECK(r.run(all.g.run(all.b)).ran == strings{"b"});
    CHECK(sorted(all.g.due()) == strings{"c", "d"});
    CHECK(all.d.value() == 12);
    CHECK(sorted(r.run(all.g.run(all.d, all.e)).ran) == strings{"c", "d"});
    CHECK(all.d.value() == 23);
}

TEST_CASE("nodes without a value order those that depend on them", "[graph]") {
    runner r(rl::testing::all_bodies().back());
    rl::graph g;
    strings seen;
    auto second = g.node(
        "second", [&] { seen.emplace_back("second"); }, rl::named<void>("first"));
    g.node("first", [&]() -> rl::task<void> {
        co_await rl::yield();
        seen.emplace_back("first");
    });
    r.run(g.run());
    CHECK(seen == strings{"first", "second"});
    second.value();
}

TEST_CASE("a failure cancels what depends on it, and says so all the way", "[graph]") {
    runner r(rl::testing::all_bodies().back());
    rl::graph g;
    bool fails = true;
    auto a = g.node("a", [&]() -> rl::task<int> {
        co_await rl::yield();
        if (fails) throw std::runtime_error("no such file");
        co_return 1;
    });
    auto b = g.node(
        "b", [](const int& v) { return v + 1; }, a);
    auto c = g.node(
        "c", [](const int& v) { return v + 1; }, b);
    auto beside = g.node("beside", [] { return later(5); });
    std::string said;
    strings failed;
    try {
        r.run(g.run());
    } catch (const rl::node_failed& e) {
        said = text_of_nested(e);
        failed = e.nodes();
    }
    CHECK(said == "graph: node 'a' failed; not run for that: 2 nodes | no such file");
    CHECK(failed == strings{"a"});
    CHECK(a.state() == rl::node_state::failed);
    CHECK(c.state() == rl::node_state::cancelled);
    CHECK(beside.value() == 5);
    CHECK(failure_of(a) == "no such file");
    CHECK(failure_of(c) ==
          "node 'c' was not run: node 'a' failed (c <- b <- a) | "
          "node 'b' was not run: node 'a' failed (b <- a) | no such file");
    fails = false;
    CHECK(r.run(g.run()).ran == strings{"a", "b", "c"});
    CHECK(c.value() == 3);
}

TEST_CASE("a stop ends what runs, begins nothing, and keeps what is done", "[graph]") {
    runner r(rl::testing::real_bodies().back());
    rl::graph g;
    auto first = g.node("first", [] { return 1; });
    std::atomic<bool> in_pool{false};
    auto slow = g.offload(
        "slow",
        [&](const int&, std::stop_token token) {
            in_pool = true;
            while (!token.stop_requested()) std::this_thread::yield();
            throw rl::operation_cancelled();
        },
        first);
    auto waits = g.node(
        "waits", [](const int&) { return forever(); }, first);
    auto last = g.node(
        "last", [] { return 2; }, slow, waits);
    const auto scenario = [&]() -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            const auto run = [&]() -> rl::task<void> { co_await g.run(); };
            group.spawn(run());
            while (!in_pool || waits.state() != rl::node_state::running) co_await rl::yield();
            group.cancel();
        });
    };
    r.run(scenario());
    CHECK(first.state() == rl::node_state::done);
    CHECK(slow.state() == rl::node_state::cancelled);
    CHECK(waits.state() == rl::node_state::cancelled);
    CHECK(last.runs() == 0);
    CHECK_THROWS_AS(last.value(), rl::operation_cancelled);
    CHECK(g.due() == strings{"slow", "waits", "last"});
}

TEST_CASE("a run that is stopped throws operation_cancelled", "[graph]") {
    runner r(rl::testing::all_bodies().back());
    rl::graph g;
    g.node("waits", forever);
    const std::chrono::milliseconds soon(1);
    CHECK_THROWS_AS(r.run(rl::with_timeout(soon, g.run())), rl::timed_out);
    CHECK_THROWS_AS(r.run(rl::with_timeout(soon, g.run())), rl::timed_out);
}

TEST_CASE("a node that is cancelled takes its descendants with it", "[graph]") {
    runner r(rl::testing::all_bodies().back());
    rl::graph g;
    auto waits = g.node("waits", forever);
    auto after = g.node(
        "after", [] { return 1; }, waits);
    auto other = g.node("other", [] { return later(2); });
    auto last = g.node(
        "last", [&](const int&) { return waits.cancel(); }, other);
    std::string said;
    try {
        r.run(g.run());
    } catch (const rl::node_failed& e) {
        said = e.what();
    }
    CHECK(said == "graph: node 'waits' was cancelled; not run for that: 1 node");
    CHECK(last.value());
    CHECK_FALSE(after.cancel());
    CHECK(after.state() == rl::node_state::cancelled);
}

TEST_CASE("what is set during a run counts from the next one on", "[graph]") {
    runner r(rl::testing::all_bodies().back());
    rl::graph g;
    auto in = g.input("in", 1);
    auto first = g.node(
        "first",
        [&](const int& v) {
            if (v == 1) in.set(2);
            return later(v);
        },
        in);
    const auto join = [](const int& v, const int& w) { return v * 10 + w; };
    auto second = g.node("second", join, first, in);
    r.run(g.run());
    CHECK(second.value() == 11);
    CHECK(r.run(g.run()).ran.size() == 2);
    CHECK(second.value() == 22);
    CHECK(r.run(g.run()).ran.empty());
}

TEST_CASE("a graph that cannot be is refused", "[graph]") {
    runner r(rl::testing::all_bodies().back());
    rl::graph g;
    const auto one = [](const int& v) { return v; };
    auto a = g.node("a", one, rl::named<int>("c"));
    CHECK_THROWS_WITH(r.run(g.run()),
                      "graph: node 'a' depends on 'c', and there is no node of that name");
    auto b = g.node("b", one, a);
    CHECK_THROWS_WITH(g.node("b", one, a),
                      "graph: there is a node 'b' already: each needs a name of its own");
    g.node("c", one, b);
    CHECK_THROWS_WITH(g.check(),
                      "graph: a cycle, which could never begin: 'a' depends on 'c' "
                      "depends on 'b' depends on 'a'");
    rl::graph other;
    CHECK_THROWS_AS(other.node("d", one, a), rl::graph_error);
    rl::graph typed;
    typed.input("text", std::string("no number"));
    typed.node("a", one, rl::named<int>("text"));
    CHECK_THROWS_WITH(typed.check(),
                      "graph: node 'a' takes 'text' as a value of another type than it has");
    rl::graph busy;
    const auto nested = [&] { return busy.run(); };
    busy.node("nested", nested);
    CHECK_THROWS_AS(r.run(busy.run()), rl::node_failed);
    const auto add = [&] { busy.input("late", 1); };
    busy.node("add", add);
    CHECK_THROWS_AS(r.run(busy.run()), rl::node_failed);
}

TEST_CASE("a graph is drawn as text and as DOT, also one that cannot run", "[graph]") {
    runner r(rl::testing::real_bodies().back());
    diamond all;
    CHECK(all.g.explain().find("graph of 6 nodes, 4 due\n") == 0);
    r.run(all.g.run());
    all.a.set(5);
    const std::string text = all.g.explain();
    CAPTURE(text);
    CHECK(text.find("graph of 6 nodes, 3 due\n") == 0);
    CHECK(text.find("b  native  DONE  1 run") != std::string::npos);
    CHECK(text.find("<- b, c  due: 'b' is due") != std::string::npos);
    CHECK(text.find("due: 'a' has changed") != std::string::npos);
    const std::string dot = all.g.dot();
    CHECK(dot.find("\"a\" -> \"b\";") != std::string::npos);
    CHECK(dot.find("\"d\" [label=\"d\\nnative, DONE\"") != std::string::npos);
    rl::graph g;
    g.node(
        "a \"quoted\"", [] {}, rl::named<void>("b"));
    CHECK(g.dot().find("\"b\" -> \"a \\\"quoted\\\"\";") != std::string::npos);
    CHECK(g.explain().find("which cannot run: graph: node 'a \"quoted\"' depends on 'b'") !=
          std::string::npos);
}

TEST_CASE("a graph of 1,000 nodes runs each once, and again a thousandth of it", "[graph]") {
    runner r(rl::testing::real_bodies().back());
    rl::graph g;
    std::vector<rl::graph_input<int>> in;
    std::vector<rl::graph_node<int>> row;
    for (int i = 0; i < 100; ++i) {
        in.push_back(g.input("in" + std::to_string(i), i));
        row.push_back(g.node("0/" + std::to_string(i), later, in.back()));
    }
    for (int level = 1; level < 10; ++level)
        for (int i = 0; i < 100; ++i) {
            auto& at = row[static_cast<std::size_t>(i)];
            const std::string name = std::to_string(level) + "/" + std::to_string(i);
            const auto next = [](const int& v) { return v + 1; };
            at = level % 2 == 0 ? g.node(name, next, at) : g.offload(name, next, at);
        }
    CHECK(r.run(g.run()).ran.size() == 1000);
    CHECK(row[42].value() == 42 + 9);
    in[42].set(0);
    const rl::graph_report again = r.run(g.run());
    CHECK(again.ran.size() == 10);
    CHECK(again.kept == 990);
    CHECK(row[42].value() == 9);
}
