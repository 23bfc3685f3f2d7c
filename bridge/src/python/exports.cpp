// What ringloop.stats() tells of functions that extension modules export: calls, and how long their
// first steps ran with and without the GIL.
//
// Thread: any with the GIL.
#include "ringloop/py/export_info.hpp"

#include <Python.h>

#include "ringloop/bridge/python/ref.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

const py::detail::export_info* first = nullptr;

unsigned long long value_of(const py::detail::gil_counter& counter) noexcept {
    return counter.value();
}

const char* policy_of(const py::detail::export_info& about) noexcept {
    static constexpr const char* names[] = {"hold", "release", "auto"};
    return names[static_cast<int>(about.policy)];
}

PyObject* export_statistics(PyObject*, PyObject*) {
    ref list = ref::steal(PyList_New(0));
    for (const auto* each = first; list && each != nullptr; each = each->next) {
        const ref entry = ref::steal(Py_BuildValue(
            "{s:s,s:s,s:s,s:K,s:K,s:K,s:K}", "module", each->module, "name", each->name, "policy",
            policy_of(*each), "calls", value_of(each->calls), "held_ns", value_of(each->held_ns),
            "released_ns", value_of(each->released_ns), "waited_ns", value_of(each->waited_ns)));
        if (!entry || PyList_Append(list.get(), entry.get()) < 0) return nullptr;
    }
    return list.release();
}

PyMethodDef methods[] = {
    {"export_statistics", export_statistics, METH_NOARGS,
     "One dict for each exported native function: module, name, policy, calls, held_ns, "
     "released_ns, waited_ns."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void add_export(const py::detail::export_info& added) noexcept {
    added.next = first;
    first = &added;
}

int add_export_statistics(PyObject* module) noexcept {
    return PyModule_AddFunctions(module, methods);
}

}  // namespace ringloop::bridge
