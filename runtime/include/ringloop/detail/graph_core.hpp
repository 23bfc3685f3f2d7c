// graph_core: a task graph without its work: names, edges, states, and what is due.
//
// Both faces of the graph stand on it, C++'s (graph.hpp) and Python's. It runs nothing: it says
// which node may begin, is told how each ended, and knows what follows from that.
//
//     pending -> ready -> running -> done | failed | cancelled
//        \----------\----> cancelled        (a dependency did not come to be done)
//
// Rules
//  1. A clock of its own counts beginnings and values. A node is due when it is not done, was
//     touched, or when a dependency is due or has a value from after the node's last beginning.
//     Nothing else runs: after a change of one input these are that input's descendants.
//  2. A node that failed or was cancelled cancels all that depend on it, and each of these knows
//     the dependency that it was not run for. Others go on.
//  3. Names may stand for nodes that come later. begin() and check() find them, and refuse unknown
//     ones and cycles.
// Thread: one at a time. No locks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace ringloop {

enum class node_state : unsigned char { pending, ready, running, done, failed, cancelled };
// As it is called in drawings, and in Python: "PENDING" and so on.
[[nodiscard]] const char* to_string(node_state state) noexcept;

// A graph that cannot be: a cycle, an unknown name, a name given twice, a dependency of another
// type or graph.
class graph_error : public std::invalid_argument {
  public:
    using invalid_argument::invalid_argument;
};

// What a run did.
struct graph_report {
    std::vector<std::string> ran;  // in the order in which they began
    std::size_t kept = 0;          // nodes whose values were still good
};

namespace detail {

using node_id = std::uint32_t;
inline constexpr node_id no_node = UINT32_MAX;

// A dependency: a node that is there, or the name of one.
struct graph_edge {
    node_id node = no_node;
    std::string name;
};

class graph_core {
  public:
    // `where` it runs, for drawings. Throws graph_error for a name that is taken, std::logic_error
    // in a run.
    node_id add(std::string name, std::string where, std::vector<graph_edge> needs);
    node_id add_input(std::string name);  // never runs, has a value from the start

    [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
    [[nodiscard]] node_id find(const std::string& name) const noexcept;  // no_node: unknown
    [[nodiscard]] const std::string& name(node_id of) const noexcept { return nodes_[of].name; }
    [[nodiscard]] node_state state(node_id of) const noexcept { return nodes_[of].state; }
    [[nodiscard]] std::uint64_t runs(node_id of) const noexcept { return nodes_[of].runs; }
    // Since the last check() or begin().
    [[nodiscard]] std::span<const node_id> needs(node_id of) const noexcept {
        return nodes_[of].needs;
    }

    void changed(node_id input) noexcept { nodes_[input].made = ++clock_; }
    // It is due, though what it depends on has not changed.
    void touch(node_id again) noexcept { nodes_[again].touched = true; }

    // Finds the names. Throws graph_error.
    void check();
    // What a run would run, in order; of `targets` and what they depend on, or of all. Throws
    // graph_error.
    [[nodiscard]] std::vector<node_id> due(std::span<const node_id> targets = {});

    // ---- a run. begin() throws graph_error, and std::logic_error inside of a run.
    void begin(std::span<const node_id> targets = {});
    [[nodiscard]] bool is_running() const noexcept { return in_run_; }
    // A node that may begin, and has begun with that; no_node: none at the moment.
    [[nodiscard]] node_id take(std::int64_t now_ns) noexcept;
    // One that was taken is done, failed or cancelled.
    void ended(node_id node, node_state how, std::int64_t now_ns);
    // Before it began: cancels it, and all that depend on it. False: too late, or not in the run.
    bool cancel(node_id node);
    // Cancels all that have not begun. What is cancelled from here on is no trouble.
    void stop() noexcept;
    // Every node has ended.
    [[nodiscard]] bool is_over() const noexcept { return open_ == 0; }
    // What had not ended by now is cancelled.
    [[nodiscard]] graph_report finish();

    // ---- of the last run
    // Whether stop() kept it from coming to its end.
    [[nodiscard]] bool was_stopped() const noexcept { return stopped_ && lost_ != 0; }
    // Those that failed or were cancelled by themselves, in order; not what a stop() ended.
    [[nodiscard]] std::span<const node_id> troubles() const noexcept { return troubles_; }
    // Names them, and how many were not run for them.
    [[nodiscard]] std::string describe_troubles() const;
    // The dependency that a cancelled node was not run for; no_node: it was cancelled itself.
    [[nodiscard]] node_id because(node_id cancelled) const noexcept {
        return nodes_[cancelled].because;
    }
    // The node at the end of that trail; `cancelled` itself where there is none.
    [[nodiscard]] node_id culprit(node_id cancelled) const noexcept;
    // "node 'c' was not run: node 'a' failed (c <- b <- a)"
    [[nodiscard]] std::string describe_cancelled(node_id cancelled) const;

    // ---- drawings; also of a graph that check() refuses
    [[nodiscard]] std::string dot() const;
    [[nodiscard]] std::string text();

  private:
    struct node {
        std::string name;
        std::string where;
        std::vector<graph_edge> edges;  // as they were given
        std::vector<node_id> needs;
        std::vector<node_id> feeds;
        std::uint64_t began = 0;  // of clock_, as `made`
        std::uint64_t made = 0;
        std::uint64_t runs = 0;
        std::int64_t began_ns = 0;
        std::int64_t took_ns = 0;
        node_id because = no_node;
        std::uint32_t missing = 0;  // dependencies that have yet to be done in this run
        node_state state = node_state::pending;
        bool input = false;
        bool touched = false;
        bool planned = false;  // part of the present or last run
        [[nodiscard]] bool waits() const noexcept {
            return planned && (state == node_state::pending || state == node_state::ready);
        }
    };

    node_id insert(node made);
    [[nodiscard]] const std::string& name_of(const graph_edge& edge) const noexcept {
        return edge.node == no_node ? edge.name : nodes_[edge.node].name;
    }
    void find_needs();
    void sort();
    [[noreturn]] void refuse_cycle(const std::vector<std::uint32_t>& missing) const;
    [[nodiscard]] std::vector<bool> wanted(std::span<const node_id> targets) const;
    [[nodiscard]] std::vector<bool> plan(std::span<const node_id> targets) const;
    [[nodiscard]] std::string reason(const node& at, const std::vector<bool>& due) const;
    void make_ready(node_id id);
    void cancel_after(node_id trouble);
    void end(node& at, node_state how) noexcept;
    [[nodiscard]] std::vector<std::string> row(const node& at) const;

    std::vector<node> nodes_;
    std::unordered_map<std::string, node_id> by_name_;
    std::vector<node_id> order_;  // dependencies first; of all nodes, once they were checked
    std::uint64_t clock_ = 0;

    std::vector<node_id> ready_;  // of this run, as the rest
    std::size_t taken_ = 0;       // of ready_
    std::vector<node_id> ran_;
    std::vector<node_id> troubles_;
    std::size_t open_ = 0;  // planned, and not ended
    std::size_t kept_ = 0;
    std::size_t lost_ = 0;  // cancelled by or after a stop
    bool stopped_ = false;
    bool in_run_ = false;
};

}  // namespace detail
}  // namespace ringloop
