// graph_slot: one node of a C++ graph: its value, its work, and what that threw.
//
// Owned by the graph, at one address for its life: coroutines of nodes refer to it and to the
// values of the slots that it depends on.
// Thread: the run's; a function under offload() reads its dependencies' values, which nobody
// changes before it has returned.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include "ringloop/detail/graph_core.hpp"
#include "ringloop/offload.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/task.hpp"

namespace ringloop {

class graph;

namespace detail {

class graph_slot {
  public:
    graph_slot() = default;
    virtual ~graph_slot() = default;
    graph_slot(const graph_slot&) = delete;
    graph_slot& operator=(const graph_slot&) = delete;

    virtual task<void> work() = 0;
    virtual void find_needs(graph&) {}  // those that were given by name; throws graph_error
    virtual void settle() {}            // takes over what was set during a run

    node_id id = no_node;
    std::exception_ptr failure;   // of its last run
    stop_scope* scope = nullptr;  // while it runs
};

template <class T>
class graph_value : public graph_slot {
  public:
    using stored = std::conditional_t<std::is_void_v<T>, std::monostate, T>;
    std::optional<stored> value;
};

template <class T>
class graph_constant final : public graph_value<T> {
  public:
    explicit graph_constant(T first) { this->value.emplace(std::move(first)); }
    task<void> work() override { return {}; }  // inputs never run
    void settle() override {
        if (next) this->value = std::move(next);
        next.reset();
    }
    std::optional<T> next;
};

// A dependency of type T: the slot, or the name under which it is found.
template <class T>
struct graph_need {
    graph_value<T>* slot = nullptr;
    graph_edge edge;
    // What a function gets for it: nothing for void.
    [[nodiscard]] auto argument() const {
        if constexpr (std::is_void_v<T>)
            return std::tuple<>();
        else
            return std::tuple<const T&>(*slot->value);
    }
};

// The call of a Function with those arguments, and a stop_token as last one where it takes it.
template <class Function, class Arguments>
struct graph_call;
template <class Function, class... A>
struct graph_call<Function, std::tuple<A...>> {
    static constexpr bool takes_token = std::is_invocable_v<Function&, A..., std::stop_token>;
    static_assert(takes_token || std::is_invocable_v<Function&, A...>,
                  "a node's function takes the values of its dependencies as const references, in "
                  "order, and nothing for dependencies of type void");
    using returned =
        typename std::conditional_t<takes_token,
                                    std::invoke_result<Function&, A..., std::stop_token>,
                                    std::invoke_result<Function&, A...>>::type;
    static returned make(Function& function, const std::stop_token& token, A... arguments) {
        if constexpr (takes_token)
            return std::invoke(function, arguments..., token);
        else
            return std::invoke(function, arguments...);
    }
};

// What a node's function returns: the node's value, or a task of it.
template <class T>
struct graph_result {
    using type = std::decay_t<T>;
    static constexpr bool is_task = false;
};
template <class T>
struct graph_result<task<T>> {
    using type = T;
    static constexpr bool is_task = true;
};

template <class Function, class... D>
class graph_work final
    : public graph_value<typename graph_result<typename graph_call<
          Function,
          decltype(std::tuple_cat(std::declval<graph_need<D>>().argument()...))>::returned>::type> {
    using arguments = decltype(std::tuple_cat(std::declval<graph_need<D>>().argument()...));
    using call = graph_call<Function, arguments>;
    using returned = graph_result<typename call::returned>;

  public:
    using value_type = typename returned::type;
    static constexpr bool returns_task = returned::is_task;

    graph_work(thread_pool* pool, Function function, graph_need<D>... needs)
        : pool_(pool), function_(std::move(function)), needs_(std::move(needs)...) {}

    task<void> work() override {
        this->value.reset();
        if constexpr (returns_task) {
            if constexpr (std::is_void_v<value_type>) {
                co_await invoke({});
                this->value.emplace();
            } else {
                this->value.emplace(co_await invoke({}));
            }
        } else {
            const auto fill = [this](const std::stop_token& token) {
                if constexpr (std::is_void_v<value_type>) {
                    invoke(token);
                    this->value.emplace();
                } else {
                    this->value.emplace(invoke(token));
                }
            };
            if (pool_ != nullptr)
                co_await offload(*pool_, fill);
            else
                fill({});
        }
    }
    void find_needs(graph& owner) override;

  private:
    decltype(auto) invoke(const std::stop_token& token) {
        const auto values = std::apply(
            [](const auto&... need) { return std::tuple_cat(need.argument()...); }, needs_);
        return std::apply(
            [&](const auto&... value) -> decltype(auto) {
                return call::make(function_, token, value...);
            },
            values);
    }

    thread_pool* pool_;  // null: on the run's own thread
    Function function_;
    std::tuple<graph_need<D>...> needs_;
};

}  // namespace detail
}  // namespace ringloop
