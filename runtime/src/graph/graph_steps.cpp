// A run: what may begin, and what follows from an end. Contract in detail/graph_core.hpp.
#include <algorithm>
#include <utility>

#include "ringloop/detail/graph_core.hpp"

namespace ringloop::detail {

void graph_core::begin(std::span<const node_id> targets) {
    if (in_run_) throw std::logic_error("graph: it is running already; await that run first");
    check();
    const std::vector<bool> due = plan(targets);
    const std::vector<bool> all = wanted(targets);
    ready_.clear();
    ran_.clear();
    troubles_.clear();
    ready_.reserve(nodes_.size());  // so that nothing below, nor an end, fails for want of memory
    ran_.reserve(nodes_.size());
    troubles_.reserve(nodes_.size());
    taken_ = open_ = kept_ = lost_ = 0;
    stopped_ = false;
    in_run_ = true;
    for (const node_id id : order_) {
        node& at = nodes_[id];
        at.planned = due[id];
        if (!at.planned) {
            if (all[id] && !at.input) ++kept_;
            continue;
        }
        ++open_;
        at.state = node_state::pending;
        at.because = no_node;
        at.missing = static_cast<std::uint32_t>(std::count_if(
            at.needs.begin(), at.needs.end(), [&](node_id need) { return nodes_[need].planned; }));
        if (at.missing == 0) make_ready(id);
    }
}

void graph_core::make_ready(node_id id) {
    nodes_[id].state = node_state::ready;
    ready_.push_back(id);
}

node_id graph_core::take(std::int64_t now_ns) noexcept {
    while (taken_ < ready_.size()) {
        const node_id id = ready_[taken_++];
        node& at = nodes_[id];
        if (at.state != node_state::ready) continue;  // cancelled meanwhile
        at.state = node_state::running;
        at.touched = false;
        at.began = ++clock_;
        at.began_ns = now_ns;
        ++at.runs;
        ran_.push_back(id);
        return id;
    }
    return no_node;
}

void graph_core::end(node& at, node_state how) noexcept {
    at.state = how;
    --open_;
}

void graph_core::ended(node_id id, node_state how, std::int64_t now_ns) {
    node& at = nodes_[id];
    at.took_ns = now_ns - at.began_ns;
    end(at, how);
    if (how != node_state::done) {
        if (stopped_ && how == node_state::cancelled)
            ++lost_;
        else
            troubles_.push_back(id);
        cancel_after(id);
        return;
    }
    at.made = ++clock_;
    for (const node_id fed : at.feeds) {
        node& next = nodes_[fed];
        if (next.waits() && --next.missing == 0) make_ready(fed);
    }
}

void graph_core::cancel_after(node_id trouble) {
    std::vector<node_id> stack{trouble};
    while (!stack.empty()) {
        const node_id at = stack.back();
        stack.pop_back();
        for (const node_id fed : nodes_[at].feeds) {
            node& next = nodes_[fed];
            if (!next.waits()) continue;
            next.because = at;
            end(next, node_state::cancelled);
            stack.push_back(fed);
        }
    }
}

bool graph_core::cancel(node_id id) {
    if (!in_run_ || !nodes_[id].waits()) return false;
    end(nodes_[id], node_state::cancelled);
    troubles_.push_back(id);
    cancel_after(id);
    return true;
}

void graph_core::stop() noexcept {
    stopped_ = true;
    for (node& at : nodes_) {
        if (!at.waits()) continue;
        end(at, node_state::cancelled);
        ++lost_;
    }
}

graph_report graph_core::finish() {
    if (!is_over()) stop();
    for (node& at : nodes_)
        if (at.state == node_state::running) end(at, node_state::cancelled);
    in_run_ = false;
    graph_report report;
    report.kept = kept_;
    report.ran.reserve(ran_.size());
    for (const node_id id : ran_) report.ran.push_back(nodes_[id].name);
    return report;
}

std::string graph_core::describe_troubles() const {
    std::string text = "graph: ";
    for (const node_id id : troubles_) {
        if (id != troubles_.front()) text += ", ";
        text += "node '" + nodes_[id].name + "' " +
                (nodes_[id].state == node_state::failed ? "failed" : "was cancelled");
    }
    const auto lost = std::count_if(nodes_.begin(), nodes_.end(), [](const node& at) {
        return at.planned && at.state == node_state::cancelled && at.because != no_node;
    });
    if (lost == 0) return text;
    return text + "; not run for that: " + std::to_string(lost) + (lost == 1 ? " node" : " nodes");
}

node_id graph_core::culprit(node_id cancelled) const noexcept {
    while (nodes_[cancelled].because != no_node) cancelled = nodes_[cancelled].because;
    return cancelled;
}

std::string graph_core::describe_cancelled(node_id cancelled) const {
    std::string path = nodes_[cancelled].name;
    for (node_id at = nodes_[cancelled].because; at != no_node; at = nodes_[at].because)
        path += " <- " + nodes_[at].name;
    const std::string head = "node '" + nodes_[cancelled].name + "' was ";
    const node_id first = culprit(cancelled);
    if (first == cancelled) return head + "cancelled";
    const node_state now = nodes_[first].state;  // a later run may have mended it
    const char* const what = now == node_state::failed      ? "failed"
                             : now == node_state::cancelled ? "was cancelled"
                                                            : "was not done then";
    return head + "not run: node '" + nodes_[first].name + "' " + what + " (" + path + ")";
}

}  // namespace ringloop::detail
