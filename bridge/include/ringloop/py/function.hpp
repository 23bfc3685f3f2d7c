// py::function: something callable of Python's, called by a coroutine that Python awaits.
//
//     rl::task<int> sum(std::vector<int> all, py::function each) {
//         int total = 0;
//         for (int one : all) total += co_await each.call<int>(one);
//         co_return total;
//     }
//
// The call is made on the loop's thread, in the context of the outer await, and the coroutine goes
// on with the GIL until its next wait. What is awaitable of the answer is awaited (await.hpp: also
// how a stop ends it). What Python raises is thrown as py::error.
//
// Thread: function may be copied, moved and destroyed anywhere; call() as await().
#pragma once

#include <Python.h>

#include <memory>
#include <type_traits>
#include <utility>

#include "ringloop/py/await.hpp"
#include "ringloop/py/convert.hpp"

namespace ringloop::py {

namespace detail {

[[nodiscard]] inline bool is_awaitable(PyObject* object) noexcept {
    const PyTypeObject* type = Py_TYPE(object);
    return PyCoro_CheckExact(object) ||
           (type->tp_as_async != nullptr && type->tp_as_async->am_await != nullptr);
}

// Null where the tool has no type of Python's for the argument: with an exception set.
inline void put_argument(PyObject* tuple, Py_ssize_t at, PyObject* converted) {
    if (converted == nullptr) throw error::take();
    PyTuple_SET_ITEM(tuple, at, converted);
}

template <class Result, class... Arguments>
task<Result> call_function(std::shared_ptr<const ref> callable, Arguments... arguments) {
    const stop_scope* const scope = co_await current_scope();
    if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
    co_await hold_gil();
    task_base& source = needed(co_await find_source());
    ref packed = ref::steal(PyTuple_New(static_cast<Py_ssize_t>(sizeof...(Arguments))));
    if (!packed) throw error::take();
    [[maybe_unused]] Py_ssize_t at = 0;  // GCC 16 warns of it where no argument advances it
    (put_argument(packed.get(), at++, convert<Arguments>::to(std::move(arguments))), ...);
    ref answer = call_in(source.context(), callable->get(), packed.get());
    if (is_awaitable(answer.get())) answer = co_await await(std::move(answer));
    if constexpr (!std::is_void_v<Result>) co_return convert<Result>::from(answer.get());
}

}  // namespace detail

class function {
  public:
    function() noexcept = default;
    explicit function(ref callable) : callable_(std::make_shared<const ref>(std::move(callable))) {}
    explicit operator bool() const noexcept { return callable_ != nullptr; }
    [[nodiscard]] PyObject* get() const noexcept { return callable_ ? callable_->get() : nullptr; }
    // For the collector: of copies nobody is the one owner.
    int traverse(visitproc visit, void* arg) const noexcept {
        return callable_.use_count() == 1 ? callable_->traverse(visit, arg) : 0;
    }

    template <class Result = void, class... Arguments>
    [[nodiscard]] task<Result> call(Arguments... arguments) const {
        return detail::call_function<Result, Arguments...>(callable_, std::move(arguments)...);
    }

  private:
    std::shared_ptr<const ref> callable_;
};

template <>
struct detail::own<function> {
    static constexpr char name[] = "collections.abc.Callable";
    static bool read(PyObject* object, function& into) {
        if (PyCallable_Check(object) == 0) return false;
        into = function(ref::share(object));
        return true;
    }
    static PyObject* give(const function& value) noexcept {
        return Py_NewRef(value ? value.get() : Py_None);
    }
};

}  // namespace ringloop::py
