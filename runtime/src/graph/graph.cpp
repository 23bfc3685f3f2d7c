// The run of a C++ graph. Contract in graph.hpp.
#include "ringloop/graph.hpp"

#include <cassert>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"

namespace ringloop {

using detail::graph_slot;
using detail::no_node;
using detail::node_id;

graph::~graph() {
    assert(!core_.is_running() && "a graph died before its run");
}

void graph::insert(node_id id, std::unique_ptr<graph_slot> slot) {
    slot->id = id;
    slots_.push_back(std::move(slot));
}

graph_slot* graph::find(const std::string& name) const noexcept {
    const node_id id = core_.find(name);
    return id == no_node ? nullptr : slots_[id].get();
}

void graph::check() {
    core_.check();
    for (const auto& slot : slots_) slot->find_needs(*this);
}

std::vector<std::string> graph::due() {
    std::vector<std::string> names;
    for (const node_id id : core_.due()) names.push_back(core_.name(id));
    return names;
}

task<graph_report> graph::run_nodes(std::vector<node_id> targets) {
    if (!core_.is_running()) check();
    core_.begin(targets);
    std::exception_ptr trouble;
    try {
        // The group has no failures of its own: members keep theirs in their slots.
        const auto body = [this](task_group& group) -> task<void> {
            begin_ready(group);
            co_return;
        };
        co_await with_group(body);
    } catch (...) {
        trouble = std::current_exception();  // no memory, or a stop before it began
    }
    graph_report report = finish();
    if (trouble) std::rethrow_exception(trouble);
    if (core_.was_stopped()) throw operation_cancelled();
    if (!core_.troubles().empty()) throw_troubles();
    co_return report;
}

void graph::begin_ready(task_group& group) {
    if (group.scope().stop_requested()) core_.stop();
    scheduler& home = detail::running_scheduler();
    for (node_id id = core_.take(home.now_ns()); id != no_node; id = core_.take(home.now_ns()))
        group.spawn(run_node(*slots_[id], group));
}

task<void> graph::run_node(graph_slot& slot, task_group& group) {
    slot.failure = nullptr;
    node_state how = node_state::done;
    {
        stop_scope scope(&group.scope());
        slot.scope = &scope;
        try {
            task<void> work = slot.work();
            co_await std::move(work).in(scope);
        } catch (...) {
            slot.failure = std::current_exception();
            how = detail::is_cancel(slot.failure) ? node_state::cancelled : node_state::failed;
        }
        slot.scope = nullptr;
    }
    if (group.scope().stop_requested()) core_.stop();
    core_.ended(slot.id, how, detail::running_scheduler().now_ns());
    begin_ready(group);
}

graph_report graph::finish() {
    graph_report report = core_.finish();
    for (graph_slot* slot : std::exchange(set_in_run_, {})) {
        slot->settle();
        core_.changed(slot->id);
    }
    return report;
}

void graph::throw_troubles() {
    std::vector<std::string> names;
    for (const node_id id : core_.troubles()) names.push_back(core_.name(id));
    const std::string text = core_.describe_troubles();
    const std::exception_ptr first = slots_[core_.troubles().front()]->failure;
    if (!first) throw node_failed(text, std::move(names));  // cancelled before it began
    try {
        std::rethrow_exception(first);
    } catch (...) {
        std::throw_with_nested(node_failed(text, std::move(names)));
    }
}

// The way back to the culprit, one exception a node.
std::exception_ptr graph::reason(node_id id) const {
    if (core_.state(id) == node_state::failed) return slots_[id]->failure;
    if (core_.state(id) != node_state::cancelled)
        return std::make_exception_ptr(
            std::logic_error("graph: node '" + core_.name(id) + "' has not run yet"));
    const node_id because = core_.because(id);
    if (because == no_node) return std::make_exception_ptr(operation_cancelled());
    const node_failed mine(core_.describe_cancelled(id), {core_.name(core_.culprit(id))});
    if (core_.state(because) == node_state::done) return std::make_exception_ptr(mine);
    try {
        std::rethrow_exception(reason(because));
    } catch (...) {
        try {
            std::throw_with_nested(mine);
        } catch (...) {
            return std::current_exception();
        }
    }
}

bool graph::cancel(graph_slot& slot) {
    if (slot.scope == nullptr) {
        if (!core_.cancel(slot.id)) return false;
        slot.failure = nullptr;  // of an earlier run
        return true;
    }
    slot.scope->request_stop();
    return true;
}

}  // namespace ringloop
