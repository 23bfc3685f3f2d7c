// The graph's nodes, edges and order. Contract in detail/graph_core.hpp.
#include "ringloop/detail/graph_core.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace ringloop {

const char* to_string(node_state state) noexcept {
    switch (state) {
        case node_state::pending:
            return "PENDING";
        case node_state::ready:
            return "READY";
        case node_state::running:
            return "RUNNING";
        case node_state::done:
            return "DONE";
        case node_state::failed:
            return "FAILED";
        case node_state::cancelled:
            return "CANCELLED";
    }
    return "?";
}

namespace detail {

node_id graph_core::insert(node made) {
    if (in_run_)
        throw std::logic_error("graph: node '" + made.name + "' cannot be added during a run");
    if (nodes_.size() >= no_node) throw std::length_error("graph: too many nodes");
    const auto id = static_cast<node_id>(nodes_.size());
    const auto [place, is_new] = by_name_.try_emplace(made.name, id);
    if (!is_new)
        throw graph_error("graph: there is a node '" + made.name +
                          "' already: each needs a name of its own");
    try {
        nodes_.push_back(std::move(made));
    } catch (...) {
        by_name_.erase(place);
        throw;
    }
    order_.clear();
    return id;
}

node_id graph_core::add(std::string name, std::string where, std::vector<graph_edge> needs) {
    node made;
    made.name = std::move(name);
    made.where = std::move(where);
    made.edges = std::move(needs);
    return insert(std::move(made));
}

node_id graph_core::add_input(std::string name) {
    node made;
    made.name = std::move(name);
    made.where = "input";
    made.state = node_state::done;
    made.input = true;
    made.made = ++clock_;
    return insert(std::move(made));
}

node_id graph_core::find(const std::string& name) const noexcept {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? no_node : found->second;
}

void graph_core::check() {
    if (order_.size() == nodes_.size()) return;
    find_needs();
    sort();
}

void graph_core::find_needs() {
    for (node& at : nodes_) {
        at.needs.clear();
        at.feeds.clear();
    }
    for (node_id id = 0; id < nodes_.size(); ++id) {
        for (const graph_edge& edge : nodes_[id].edges) {
            const node_id need = edge.node == no_node ? find(edge.name) : edge.node;
            if (need == no_node)
                throw graph_error("graph: node '" + nodes_[id].name + "' depends on '" + edge.name +
                                  "', and there is no node of that name");
            nodes_[id].needs.push_back(need);
            nodes_[need].feeds.push_back(id);
        }
    }
}

// Each node after its dependencies, else in the order of their definition.
void graph_core::sort() {
    std::vector<std::uint32_t> missing(nodes_.size());
    std::vector<node_id> order;
    order.reserve(nodes_.size());
    for (node_id id = 0; id < nodes_.size(); ++id) {
        missing[id] = static_cast<std::uint32_t>(nodes_[id].needs.size());
        if (missing[id] == 0) order.push_back(id);
    }
    for (std::size_t i = 0; i < order.size(); ++i)
        for (const node_id fed : nodes_[order[i]].feeds)
            if (--missing[fed] == 0) order.push_back(fed);
    if (order.size() < nodes_.size()) refuse_cycle(missing);
    order_ = std::move(order);
}

// What still misses something has at least one dependency that does: following these leads into a
// cycle.
void graph_core::refuse_cycle(const std::vector<std::uint32_t>& missing) const {
    const auto first = std::find_if(missing.begin(), missing.end(), [](auto m) { return m != 0; });
    auto at = static_cast<node_id>(first - missing.begin());
    std::vector<node_id> path;
    while (std::find(path.begin(), path.end(), at) == path.end()) {
        path.push_back(at);
        const auto& needs = nodes_[at].needs;
        at = *std::find_if(needs.begin(), needs.end(), [&](node_id n) { return missing[n] != 0; });
    }
    path.erase(path.begin(), std::find(path.begin(), path.end(), at));
    std::string text = "graph: a cycle, which could never begin: ";
    for (const node_id id : path) text += "'" + nodes_[id].name + "' depends on ";
    throw graph_error(text + "'" + nodes_[at].name + "'");
}

// ---- what is due

std::vector<bool> graph_core::wanted(std::span<const node_id> targets) const {
    std::vector<bool> all(nodes_.size(), targets.empty());
    for (const node_id id : targets) all[id] = true;
    for (auto at = order_.rbegin(); at != order_.rend(); ++at)
        if (all[*at])
            for (const node_id need : nodes_[*at].needs) all[need] = true;
    return all;
}

std::vector<bool> graph_core::plan(std::span<const node_id> targets) const {
    const std::vector<bool> all = wanted(targets);
    std::vector<bool> due(nodes_.size());
    for (const node_id id : order_) {
        const node& at = nodes_[id];
        if (at.input || !all[id]) continue;
        due[id] = at.state != node_state::done || at.touched ||
                  std::any_of(at.needs.begin(), at.needs.end(), [&](node_id need) {
                      return due[need] || nodes_[need].made > at.began;
                  });
    }
    return due;
}

std::vector<node_id> graph_core::due(std::span<const node_id> targets) {
    check();
    const std::vector<bool> all = plan(targets);
    std::vector<node_id> found;
    std::copy_if(order_.begin(), order_.end(), std::back_inserter(found),
                 [&](node_id id) { return all[id]; });
    return found;
}

}  // namespace detail
}  // namespace ringloop
