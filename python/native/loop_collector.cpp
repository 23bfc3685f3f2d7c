// What the garbage collector sees of a loop.
//
// A loop keeps what waits in its queues, and the owners of what it has in flight: transports,
// listeners and awaitables, whose operations hold references to them that only the loop can drop.
// So all of these go together, once nobody has any of them any more: the finalizers first (the
// loop's warns and closes it), which end what is in flight. Where a finalizer did not, clear does,
// and the others' clear leaves them whole until then.
//
// A reference that is visited here must be there. What a handler or a turn has in its hands is not
// counted, which the collector takes for a reference of somebody's.
//
// GIL held; any thread, as that of a close().
#include "datagram.hpp"
#include "loop_object.hpp"
#include "server.hpp"
#include "transport.hpp"

namespace ringloop::python {

namespace {

loop_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<loop_object*>(self);
}

int visit_queues(loop_state& state, visitproc visit, void* arg) noexcept {
    const std::size_t ready = state.ready.size(), timers = state.timers.size();
    for (std::size_t i = 0; i < ready; ++i)
        if (int result = handle_traverse_contents(state.ready.at(i), visit, arg)) return result;
    for (std::size_t i = 0; i < timers; ++i)
        if (int result = handle_traverse_contents(state.timers.at(i), visit, arg)) return result;
    for (handle_object* handle : state.endings)
        if (int result = handle_traverse_contents(handle, visit, arg)) return result;
    return state.watches.traverse(visit, arg);
}

// In a forked child these are the parent's.
int visit_owners(loop_object* loop, visitproc visit, void* arg) noexcept {
    if (!loop->state.native || loop->state.forked) return 0;
    for (PyObject* transport : loop->state.transports) {
        if (transport == nullptr) continue;
        const int result = is_transport(transport) ? transport_visit_held(transport, visit, arg)
                                                   : datagram_visit_held(transport, visit, arg);
        if (result != 0) return result;
    }
    return visit_listeners(loop, visit, arg);
}

}  // namespace

int loop_traverse(PyObject* self, visitproc visit, void* arg) noexcept {
    Py_VISIT(Py_TYPE(self));
    loop_state& state = cast(self)->state;
    if (int result = visit_queues(state, visit, arg)) return result;
    if (int result = visit_owners(cast(self), visit, arg)) return result;
    if (state.host)
        if (int result = state.host->traverse(visit, arg)) return result;
    Py_VISIT(state.clock.get());
    Py_VISIT(state.fatal.get());
    Py_VISIT(cast(self)->task_factory);
    return 0;
}

int loop_clear(PyObject* self) noexcept {
    loop_object* loop = cast(self);
    if (loop->state.running) return 0;
    const bridge::ref kept = bridge::ref::share(self);
    loop_tear_down(loop);
    loop_clear_queues(loop);
    Py_CLEAR(loop->task_factory);
    loop->state.clock = bridge::ref();
    loop->state.fatal = bridge::ref();
    return 0;
}

}  // namespace ringloop::python
