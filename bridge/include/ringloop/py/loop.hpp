// py::loop: an event loop for threads that are not its own.
//
//     py::loop home = python.loop();
//     std::thread worker([home] { home.post([] { … }); });
//
// post() runs a function on the loop's thread, with the GIL, in order. on(loop, task) in await.hpp
// runs a coroutine there, and await(object, loop) awaits Python there.
//
// Lifetime: a value. It does not keep the loop alive, nor in a cycle; once the loop is closed, what
// it is asked for is refused.
// Thread: any, without the GIL, but for the constructor: the loop's, with it.
#pragma once

#include <Python.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include "ringloop/bridge/python/host.hpp"
#include "ringloop/py/error.hpp"
#include "ringloop/py/runtime.hpp"

namespace ringloop::py {

class loop {
  public:
    loop() noexcept = default;
    // Throws py::error where it is closed, or no loop.
    explicit loop(PyObject* event_loop) {
        ringloop_loop* const link = detail::loop_table().acquire(event_loop);
        if (link == nullptr) throw error::take();
        link_ = std::shared_ptr<ringloop_loop>(
            link, [](ringloop_loop* last) { detail::loop_table().release(last); });
        identity_ = event_loop;
    }
    explicit operator bool() const noexcept { return link_ != nullptr; }
    [[nodiscard]] bool closed() const noexcept {
        return link_ == nullptr || detail::loop_table().now(link_.get()) < 0;
    }

    // Whether it is that of `host`, as long as that is open.
    [[nodiscard]] bool is(bridge::loop_host& host) const noexcept {
        return identity_ == host.loop() && !closed();
    }

    // Runs function() on the loop's thread with the GIL; what it throws is told by Python's
    // sys.unraisablehook. False: the loop is closed, and nothing runs. Where the loop closes before
    // its turn comes, it runs then.
    template <class Function>
    bool post(Function function) const {
        auto kept = std::make_unique<Function>(std::move(function));
        const bool taken = post(&call<Function>, kept.get());
        if (taken) static_cast<void>(kept.release());
        return taken;
    }
    // As ringloop_api::post: run(context) must not throw.
    [[nodiscard]] bool post(void (*run)(void*), void* context) const noexcept {
        return link_ != nullptr && detail::loop_table().post(link_.get(), run, context) == 0;
    }

  private:
    template <class Function>
    static void call(void* context) noexcept {
        const std::unique_ptr<Function> function(static_cast<Function*>(context));
        try {
            (*function)();
        } catch (const error& raised) {
            raised.restore();
            PyErr_WriteUnraisable(nullptr);
        } catch (...) {
            runtime().raise_from(std::current_exception());
            PyErr_WriteUnraisable(nullptr);
        }
    }
    std::shared_ptr<ringloop_loop> link_;
    PyObject* identity_ = nullptr;  // compared, never looked at
};

}  // namespace ringloop::py
