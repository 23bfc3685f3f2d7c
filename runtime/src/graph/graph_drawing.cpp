// A graph as DOT and as text. Contract in detail/graph_core.hpp.
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>

#include "ringloop/detail/graph_core.hpp"

namespace ringloop::detail {
namespace {

std::string quoted(const std::string& text) {
    std::string made = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') made += '\\';
        if (c == '\n')
            made += "\\n";
        else
            made += c;
    }
    return made + "\"";
}

const char* colour(node_state state) {
    switch (state) {
        case node_state::running:
            return "lightblue";
        case node_state::done:
            return "palegreen";
        case node_state::failed:
            return "salmon";
        case node_state::cancelled:
            return "lightgrey";
        default:
            return "white";
    }
}

std::string milliseconds(std::int64_t ns) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f ms", static_cast<double>(ns) / 1e6);
    return text;
}

std::string counted(std::size_t count, const char* what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

// Columns of equal width, the last one as it is.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
    std::vector<std::size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()));
        for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (std::size_t i = 0; i < row.size(); ++i) {
            line += "  " + row[i];
            line.append(widths[i] - row[i].size(), ' ');
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

}  // namespace

std::string graph_core::dot() const {
    std::string text = "digraph \"ringloop.Graph\" {\n  rankdir=LR;\n  node [style=filled];\n";
    for (const node& at : nodes_) {
        const std::string label = at.name + "\n" + at.where + ", " + to_string(at.state);
        text += "  " + quoted(at.name) + " [label=" + quoted(label) +
                ", shape=" + (at.input ? "box" : "ellipse") + ", fillcolor=" + colour(at.state) +
                "];\n";
    }
    for (const node& at : nodes_)
        for (const graph_edge& edge : at.edges)
            text += "  " + quoted(name_of(edge)) + " -> " + quoted(at.name) + ";\n";
    return text + "}\n";
}

// Why the next run would run it; empty: it would not.
std::string graph_core::reason(const node& at, const std::vector<bool>& due) const {
    if (!due[static_cast<std::size_t>(&at - nodes_.data())]) return {};
    if (at.state == node_state::failed) return "due: it failed";
    if (at.state == node_state::cancelled)
        return at.because == no_node ? "due: it was cancelled"
                                     : "due: '" + nodes_[at.because].name + "' was not done";
    if (at.runs == 0) return "due: it has not run yet";
    if (at.touched) return "due: it was touched";
    for (const node_id need : at.needs)
        if (due[need]) return "due: '" + nodes_[need].name + "' is due";
    for (const node_id need : at.needs)
        if (nodes_[need].made > at.began) return "due: '" + nodes_[need].name + "' has changed";
    return {};
}

std::vector<std::string> graph_core::row(const node& at) const {
    std::string needs;
    for (const graph_edge& edge : at.edges) needs += (needs.empty() ? "<- " : ", ") + name_of(edge);
    const bool has_run = at.runs != 0 && at.state != node_state::running;
    return {at.name,
            at.where,
            to_string(at.state),
            at.input ? "" : counted(at.runs, "run"),
            has_run ? milliseconds(at.took_ns) : "",
            needs};
}

std::string graph_core::text() {
    std::string refusal;
    try {
        check();
    } catch (const graph_error& e) {
        refusal = e.what();
    }
    std::vector<node_id> order = order_;
    if (!refusal.empty()) {
        order.resize(nodes_.size());
        std::iota(order.begin(), order.end(), node_id{0});
    }
    const std::vector<bool> due =
        refusal.empty() && !in_run_ ? plan({}) : std::vector<bool>(nodes_.size());
    std::vector<std::vector<std::string>> rows;
    rows.reserve(order.size());
    for (const node_id id : order) {
        rows.push_back(row(nodes_[id]));
        rows.back().push_back(reason(nodes_[id], due));
    }
    std::string head = "graph of " + counted(nodes_.size(), "node");
    if (in_run_)
        head += ", running";
    else if (refusal.empty())
        head += ", " + std::to_string(std::count(due.begin(), due.end(), true)) + " due";
    else
        head += ", which cannot run: " + refusal;
    return head + "\n" + aligned(rows);
}

}  // namespace ringloop::detail
