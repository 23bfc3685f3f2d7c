// Who is told of native memory (ringloop/memory.hpp): tracemalloc while it traces, under a domain
// of its own, and the functions of ringloop.memory.register_hook().
//
// tracemalloc wants the GIL, and hooks are Python; blocks are taken and given back on any thread.
// With the GIL a block is traced at once, with the traceback of where it was taken. All else waits
// in a queue, in order, for the interpreter's main thread, or for who asks for statistics: no
// native thread waits for the GIL. What no memory is left to note is not told.
//
// Thread: any for observed(), the rest with the GIL.
#include "ringloop/memory.hpp"

#include <Python.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/py/gil.hpp"
#include "table.hpp"

// tracemalloc's, under names of ours: CPython's header for them may not say that they are C.
extern "C" {
int ringloop_trace(unsigned int domain, std::uintptr_t block,
                   std::size_t bytes) __asm__("PyTraceMalloc_Track");
int ringloop_untrace(unsigned int domain, std::uintptr_t block) __asm__("PyTraceMalloc_Untrack");
}

namespace ringloop::bridge {
namespace {

constexpr unsigned tracemalloc_domain = 0x726c;  // "rl"; Python's own blocks have 0

struct event {
    const void* block;
    std::size_t bytes;
    bool taken;
};

struct waiting {
    std::mutex mutex;
    std::vector<event> to_trace;
    std::vector<event> to_hooks;
    bool announced = false;
};
// Never destroyed: threads may outlive the interpreter.
waiting& all() noexcept {
    static auto* const made = new waiting;
    return *made;
}

std::atomic<bool> hooked{false};
// Tuples of functions: [0] for blocks given back, [1] for blocks taken. Null: none yet.
std::array<PyObject*, 2> hooks{};

// A flag test of Python's own; block 0 is nobody's.
bool tracing() noexcept {
    return ringloop_untrace(tracemalloc_domain, 0) == 0;
}

void trace(const event& each) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(each.block);
    if (each.taken)
        ringloop_trace(tracemalloc_domain, address, each.bytes);
    else
        ringloop_untrace(tracemalloc_domain, address);
}

void trace_waiting(waiting& from) noexcept {
    for (const event& each : from.to_trace) trace(each);
    from.to_trace.clear();
}

void tell_hooks(const event& each) noexcept {
    const ref functions = ref::share(hooks[each.taken ? 1 : 0]);
    const Py_ssize_t count = functions ? PyTuple_GET_SIZE(functions.get()) : 0;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* const function = PyTuple_GET_ITEM(functions.get(), i);
        const ref answer = ref::steal(
            PyObject_CallFunction(function, "Nn", PyLong_FromVoidPtr(const_cast<void*>(each.block)),
                                  static_cast<Py_ssize_t>(each.bytes)));
        if (!answer) PyErr_WriteUnraisable(function);
    }
}

int deliver(void*) noexcept {
    waiting& from = all();
    std::vector<event> taken;
    {
        const std::lock_guard lock(from.mutex);
        trace_waiting(from);
        taken.swap(from.to_hooks);
        from.announced = false;
    }
    for (const event& each : taken) tell_hooks(each);
    return 0;
}

void observed(const void* block, std::size_t bytes, bool taken) noexcept {
    const bool traced = tracing();
    const bool told = hooked.load(std::memory_order_relaxed);
    if ((!traced && !told) || Py_IsInitialized() == 0) return;
    const event now{block, bytes, taken};
    waiting& to = all();
    const std::lock_guard lock(to.mutex);
    try {
        if (traced && py::holds_gil()) {
            trace_waiting(to);
            trace(now);
        } else if (traced) {
            to.to_trace.push_back(now);
        }
        if (told) to.to_hooks.push_back(now);
    } catch (...) {
        return;
    }
    if (to.announced || (to.to_trace.empty() && to.to_hooks.empty())) return;
    // Refused where 32 calls wait already: the next block announces again.
    to.announced = Py_AddPendingCall(&deliver, nullptr) == 0;
}

// The interpreter is gone, or about to be.
void stop() noexcept {
    memory::observe(nullptr);
}

PyObject* set_hooks(PyObject*, PyObject* arguments) {
    PyObject *given_back = nullptr, *taken = nullptr;
    if (PyArg_ParseTuple(arguments, "O!O!", &PyTuple_Type, &taken, &PyTuple_Type, &given_back) == 0)
        return nullptr;
    hooked.store(PyTuple_GET_SIZE(given_back) != 0 || PyTuple_GET_SIZE(taken) != 0,
                 std::memory_order_relaxed);
    Py_XSETREF(hooks[0], Py_NewRef(given_back));
    Py_XSETREF(hooks[1], Py_NewRef(taken));
    Py_RETURN_NONE;
}

bool put(PyObject* dict, const char* name, memory::usage what) noexcept {
    const ref pair = ref::steal(Py_BuildValue("LL", static_cast<long long>(what.bytes),
                                              static_cast<long long>(what.blocks)));
    return pair && PyDict_SetItemString(dict, name, pair.get()) == 0;
}

PyObject* statistics(PyObject*, PyObject*) {
    deliver(nullptr);
    ref dict = ref::steal(PyDict_New());
    for (std::size_t i = 0; dict && i < memory::kind_count; ++i) {
        const auto what = static_cast<memory::kind>(i);
        if (!put(dict.get(), memory::name(what), memory::used(what))) return nullptr;
    }
    if (!dict || !put(dict.get(), "kept_frames", memory::kept_frames())) return nullptr;
    return dict.release();
}

PyMethodDef methods[] = {
    {"memory_statistics", statistics, METH_NOARGS,
     "(bytes, blocks) of native memory by kind; what waits for tracemalloc and hooks is told."},
    {"_set_memory_hooks", set_hooks, METH_VARARGS,
     "Calls taken(address, size) and given_back(address, size) of two tuples from here on."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_memory_functions(PyObject* module) noexcept {
    if (PyModule_AddFunctions(module, methods) < 0 ||
        PyModule_AddIntConstant(module, "TRACEMALLOC_DOMAIN", tracemalloc_domain) < 0)
        return -1;
    // Refused where 32 functions wait for the end: then blocks that go later are looked at once
    // more, which finds nobody who traces.
    static_cast<void>(Py_AtExit(&stop));
    memory::observe(&observed);
    return 0;
}

}  // namespace ringloop::bridge
