// What ringloop.stats() tells of loops: the counters of their drivers, ringloop's own loops and the
// guests of foreign ones alike.
//
// Thread: any with the GIL. A loop that runs native work meanwhile may count on: each number is one
// that was true.
#include <Python.h>

#include <cstdint>
#include <new>
#include <vector>

#include "loop_object.hpp"
#include "loop_statistics.hpp"
#include "ringloop/bridge/python/host.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

// Of one loop, without Python: while dicts are made the collector may end others.
struct facts {
    ref loop;
    bool own;
    backend chosen;
    driver_counters counters;
    std::uint64_t posts;
    unsigned jobs, files, leased;
    std::size_t operations, buffer_bytes;
};

struct collecting {
    std::vector<facts> all;
    bool failed = false;

    void add(bridge::loop_host& host, bool own) noexcept {
        const driver& io = host.native().io();
        try {
            all.push_back({ref::share(host.loop()), own, io.what().chosen, io.counters(),
                           host.native().posts_run(), host.jobs_in_flight, host.files_in_flight,
                           io.leased_buffers(), io.in_flight(), io.buffer_size()});
        } catch (const std::bad_alloc&) {
            failed = true;
        }
    }
};

unsigned long long wide(std::uint64_t count) noexcept {
    return count;
}

// Null with an exception set.
PyObject* dict_of(const facts& f) noexcept {
    const driver_counters& c = f.counters;
    return Py_BuildValue(
        "{sOsOsssKsKsKsKsKsKsKsKsKsKsKsKsKsK}", "loop", f.loop.get(), "own",
        f.own ? Py_True : Py_False, "backend", name(f.chosen), "submitted", wide(c.submitted),
        "completions", wide(c.completions), "enters", wide(c.enters), "sleeps", wide(c.sleeps),
        "wake_writes", wide(c.wake_writes), "overflows", wide(c.overflows), "starved",
        wide(c.starved), "stale", wide(c.stale), "posts", wide(f.posts), "jobs_in_flight",
        wide(f.jobs), "files_in_flight", wide(f.files), "operations_in_flight", wide(f.operations),
        "buffers_leased", wide(f.leased), "buffer_bytes", wide(f.buffer_bytes));
}

PyObject* loop_statistics(PyObject*, PyObject*) noexcept {
    collecting found;
    for (loop_object* l = first_of_loops(); l != nullptr; l = l->state.next)
        if (Py_REFCNT(l) > 0) found.add(*l->state.host, true);  // 0: it is being freed
    bridge::each_guest(
        [](PyObject* loop, const driver&, void* context) noexcept {
            // It has one: nothing is made here.
            static_cast<collecting*>(context)->add(*bridge::host_of(loop), false);
        },
        &found);
    if (found.failed) return PyErr_NoMemory();
    ref list = ref::steal(PyList_New(0));
    for (const facts& each : found.all) {
        const ref dict = list ? ref::steal(dict_of(each)) : ref();
        if (!dict || PyList_Append(list.get(), dict.get()) < 0) return nullptr;
    }
    return list.release();
}

PyMethodDef methods[] = {
    {"loop_statistics", &loop_statistics, METH_NOARGS, "One dict for each loop."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_loop_statistics(PyObject* module) noexcept {
    return PyModule_AddFunctions(module, methods);
}

}  // namespace ringloop::python
