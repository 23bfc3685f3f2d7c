// graph: work with dependencies, run in parallel and again only where something changed.
//
//     graph g;
//     auto path = g.input("path", std::string("a.txt"));
//     auto rows = g.node("rows", [](const std::string& path) { return read_rows(path); }, path);
//     auto sum = g.offload("sum", [](const table& rows) { return add_up(rows); }, rows);
//     co_await g.run();
//     use(sum.value());
//     path.set("b.txt");
//     co_await g.run();           // what depends on the path, and nothing else
//
// Nodes. node() takes a function, or a coroutine (it returns a task), that runs on the run's
// thread; offload() a function for workers(), or for a pool of yours. They get their dependencies'
// values as const references, in order, and nothing for those of type void. A function may take a
// std::stop_token last, as under offload(). A coroutine that calls into Python (py::function) is a
// node like others. named<T>("rows") stands for a node that may come later; run() and check()
// refuse unknown names, other types and cycles, and node() a name that is taken: graph_error.
//
// Runs. A node begins as soon as all that it depends on is done, and is run again when one of these
// has a new value, when touch() asked for it, or when it was not done. What fails or is cancelled
// cancels the nodes that depend on it; all others go on. Then run() throws node_failed, which names
// the nodes and has the first failure nested in it.
//
// Lifetime: the graph owns functions and values, and stays where it is; handles are pointers into
// it. It outlives its run. What functions refer to outlives the graph.
// Thread: one at a time, a run's scheduler while it runs. There is one run at a time, during which
// no node is added; what is set or touched meanwhile counts from the next one on.
// Cancel: nodes that run are stopped and waited for, others do not begin; run() throws
// operation_cancelled. What was done stays done for the next run.
#pragma once

#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ringloop/detail/graph_core.hpp"
#include "ringloop/detail/graph_slot.hpp"
#include "ringloop/task.hpp"
#include "ringloop/task_group.hpp"
#include "ringloop/thread_pool.hpp"

namespace ringloop {

// What run() throws when nodes were not done, and value() of one that was not run for another's
// sake: std::rethrow_if_nested() leads to what the node itself threw.
class node_failed : public std::runtime_error {
  public:
    node_failed(const std::string& text, std::vector<std::string> names)
        : runtime_error(text),
          names_(std::make_shared<const std::vector<std::string>>(std::move(names))) {}
    // Those that failed or were cancelled themselves, first come first.
    [[nodiscard]] const std::vector<std::string>& nodes() const noexcept { return *names_; }

  private:
    std::shared_ptr<const std::vector<std::string>> names_;  // copies of exceptions must not throw
};

// A dependency by name.
template <class T>
struct node_name {
    std::string name;
};
template <class T>
[[nodiscard]] node_name<T> named(std::string name) {
    return {std::move(name)};
}

// A node whose value is a T. Copies are the same node.
template <class T>
class graph_node {
  public:
    [[nodiscard]] const std::string& name() const noexcept;
    [[nodiscard]] node_state state() const noexcept;
    // How often it has begun.
    [[nodiscard]] std::uint64_t runs() const noexcept;
    // Throws what the node threw; node_failed where it was not run for another's sake;
    // operation_cancelled; std::logic_error while it has not run yet.
    [[nodiscard]] decltype(auto) value() const;
    // Runs it again, with what depends on it, though no input has changed: it reads a file.
    void touch() const noexcept;
    // Stops it, or keeps it from beginning in this run. False: it has ended.
    bool cancel() const;

  protected:
    friend class graph;
    graph_node(graph& owner, detail::graph_value<T>& slot) noexcept
        : owner_(&owner), slot_(&slot) {}
    graph* owner_;
    detail::graph_value<T>* slot_;
};

// A value from outside.
template <class T>
class graph_input : public graph_node<T> {
  public:
    // Counts as a change, also for an equal value.
    void set(T value) const;

  private:
    friend class graph;
    graph_input(graph& owner, detail::graph_constant<T>& slot) noexcept
        : graph_node<T>(owner, slot), constant_(&slot) {}
    detail::graph_constant<T>* constant_;
};

class graph {
  public:
    graph() = default;
    graph(const graph&) = delete;
    graph& operator=(const graph&) = delete;
    ~graph();  // asserts that it is not running

    template <class T>
    graph_input<T> input(std::string name, T value) {
        auto slot = std::make_unique<detail::graph_constant<T>>(std::move(value));
        detail::graph_constant<T>& made = *slot;
        insert(core_.add_input(std::move(name)), std::move(slot));
        return {*this, made};
    }
    // Dependencies are graph_node<T> or node_name<T>.
    template <class Function, class... D>
    auto node(std::string name, Function function, const D&... needs) {
        return add<place::here>(nullptr, std::move(name), std::move(function), need(needs)...);
    }
    template <class Function, class... D>
    auto offload(std::string name, Function function, const D&... needs) {
        return offload(workers(), std::move(name), std::move(function), needs...);
    }
    template <class Function, class... D>
    auto offload(thread_pool& pool, std::string name, Function function, const D&... needs) {
        return add<place::pool>(&pool, std::move(name), std::move(function), need(needs)...);
    }

    // Runs what is due: of all nodes, or of `targets` and what they depend on.
    [[nodiscard]] task<graph_report> run() { return run_nodes({}); }
    template <class... T>
    requires(sizeof...(T) > 0)
        [[nodiscard]] task<graph_report> run(const graph_node<T>&... targets) {
        return run_nodes({need(targets).edge.node...});
    }
    // Throws graph_error, as run() would.
    void check();
    // The names of what a run would run, in order.
    [[nodiscard]] std::vector<std::string> due();
    [[nodiscard]] std::size_t size() const noexcept { return core_.size(); }

    // A drawing for Graphviz, and one as text that says what is due and why. Also of a graph that
    // check() refuses.
    [[nodiscard]] std::string dot() const { return core_.dot(); }
    [[nodiscard]] std::string explain() { return core_.text(); }

  private:
    template <class T>
    friend class graph_node;
    template <class T>
    friend class graph_input;
    template <class Function, class... D>
    friend class detail::graph_work;

    template <class T>
    [[nodiscard]] detail::graph_need<T> need(const graph_node<T>& on) {
        if (on.owner_ != this) throw graph_error("graph: '" + on.name() + "' is of another graph");
        return {on.slot_, {on.slot_->id, {}}};
    }
    template <class T>
    [[nodiscard]] detail::graph_need<T> need(const node_name<T>& on) {
        return {nullptr, {detail::no_node, on.name}};
    }
    enum class place { here, pool };
    template <place Where, class Function, class... D>
    auto add(thread_pool* pool, std::string name, Function function,
             detail::graph_need<D>... needs) {
        using work = detail::graph_work<Function, D...>;
        static_assert(Where == place::here || !work::returns_task,
                      "offload() takes a plain function; coroutines are for node()");
        std::vector<detail::graph_edge> edges{needs.edge...};
        auto slot = std::make_unique<work>(pool, std::move(function), std::move(needs)...);
        work& made = *slot;
        const char* const where = Where == place::here ? "native" : "pool";
        insert(core_.add(std::move(name), where, std::move(edges)), std::move(slot));
        return graph_node<typename work::value_type>(*this, made);
    }
    void insert(detail::node_id id, std::unique_ptr<detail::graph_slot> slot);
    [[nodiscard]] detail::graph_slot* find(const std::string& name) const noexcept;
    [[nodiscard]] task<graph_report> run_nodes(std::vector<detail::node_id> targets);
    task<void> run_node(detail::graph_slot& slot, task_group& group);
    void begin_ready(task_group& group);
    [[nodiscard]] graph_report finish();
    void throw_troubles();
    // What value() of a node that is not done throws.
    [[nodiscard]] std::exception_ptr reason(detail::node_id id) const;
    bool cancel(detail::graph_slot& slot);

    detail::graph_core core_;
    std::vector<std::unique_ptr<detail::graph_slot>> slots_;  // by id
    std::vector<detail::graph_slot*> set_in_run_;
};

// ---- handles

template <class T>
const std::string& graph_node<T>::name() const noexcept {
    return owner_->core_.name(slot_->id);
}
template <class T>
node_state graph_node<T>::state() const noexcept {
    return owner_->core_.state(slot_->id);
}
template <class T>
std::uint64_t graph_node<T>::runs() const noexcept {
    return owner_->core_.runs(slot_->id);
}
template <class T>
decltype(auto) graph_node<T>::value() const {
    if (state() != node_state::done) std::rethrow_exception(owner_->reason(slot_->id));
    if constexpr (!std::is_void_v<T>) return static_cast<const T&>(*slot_->value);
}
template <class T>
void graph_node<T>::touch() const noexcept {
    owner_->core_.touch(slot_->id);
}
template <class T>
bool graph_node<T>::cancel() const {
    return owner_->cancel(*slot_);
}

template <class T>
void graph_input<T>::set(T value) const {
    const bool waits = this->owner_->core_.is_running();
    if (waits) this->owner_->set_in_run_.push_back(constant_);
    constant_->next.emplace(std::move(value));
    if (waits) return;
    constant_->settle();
    this->owner_->core_.changed(constant_->id);
}

template <class Function, class... D>
void detail::graph_work<Function, D...>::find_needs(graph& owner) {
    const auto find = [&]<class T>(graph_need<T>& need) {
        if (need.edge.node != no_node) return;
        need.slot = dynamic_cast<graph_value<T>*>(owner.find(need.edge.name));
        if (need.slot == nullptr)
            throw graph_error("graph: node '" + owner.core_.name(this->id) + "' takes '" +
                              need.edge.name + "' as a value of another type than it has");
    };
    std::apply([&](auto&... need) { (find(need), ...); }, needs_);
}

}  // namespace ringloop
