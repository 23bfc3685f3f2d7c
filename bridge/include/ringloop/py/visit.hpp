// visit_held(): shows the garbage collector the Python objects that a value owns, so that a cycle
// through arguments that wait for their await, or through a value that a generator keeps, is found.
//
// Known are py::ref, py::function, optional, pair, tuple, containers of them, and every class with
//
//     int traverse(visitproc visit, void* arg) const noexcept;    // as tp_traverse
//
// of its own. Each reference must be shown once, by its one owner: what is shared is not shown, and
// what a suspended coroutine has in its frame cannot be.
// Thread: GIL; nobody may change the value meanwhile.
#pragma once

#include <Python.h>

#include <concepts>
#include <optional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ringloop::py::detail {

template <class T>
concept traversable = requires(const T& value, visitproc visit, void* arg) {
    { value.traverse(visit, arg) } -> std::same_as<int>;
};

// 0, or what `visit` stopped with. Specialised for what may hold Python objects.
template <class T>
struct visitor {
    static constexpr bool sees = false;
    static int show(const T&, visitproc, void*) noexcept { return 0; }
};
template <traversable T>
struct visitor<T> {
    static constexpr bool sees = true;
    static int show(const T& value, visitproc visit, void* arg) noexcept {
        return value.traverse(visit, arg);
    }
};
template <class T>
struct visitor<std::optional<T>> {
    static constexpr bool sees = visitor<T>::sees;
    static int show(const std::optional<T>& value, visitproc visit, void* arg) noexcept {
        return value ? visitor<T>::show(*value, visit, arg) : 0;
    }
};
template <class... T>
struct visitor<std::tuple<T...>> {
    static constexpr bool sees = (visitor<T>::sees || ...);
    static int show(const std::tuple<T...>& value, visitproc visit, void* arg) noexcept {
        int stop = 0;
        std::apply(
            [&](const T&... each) {
                static_cast<void>(((0 == (stop = visitor<T>::show(each, visit, arg))) && ...));
            },
            value);
        return stop;
    }
};
template <class First, class Second>
struct visitor<std::pair<First, Second>> {
    using first = std::remove_const_t<First>;
    static constexpr bool sees = visitor<first>::sees || visitor<Second>::sees;
    static int show(const std::pair<First, Second>& value, visitproc visit, void* arg) noexcept {
        const int stop = visitor<first>::show(value.first, visit, arg);
        return stop != 0 ? stop : visitor<Second>::show(value.second, visit, arg);
    }
};
template <class T>
requires std::ranges::range<const T> &&
    (!traversable<T>)&&(!std::same_as<T, std::ranges::range_value_t<const T>>)&&visitor<
        std::ranges::range_value_t<const T>>::sees struct visitor<T> {
    static constexpr bool sees = true;
    static int show(const T& values, visitproc visit, void* arg) noexcept {
        for (const auto& each : values)
            if (const int stop =
                    visitor<std::ranges::range_value_t<const T>>::show(each, visit, arg);
                stop != 0)
                return stop;
        return 0;
    }
};

template <class T>
[[nodiscard]] int visit_held(const T& value, visitproc visit, void* arg) noexcept {
    return visitor<T>::show(value, visit, arg);
}

}  // namespace ringloop::py::detail
