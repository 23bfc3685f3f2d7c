// The extension module ringloop._native: gathers what the other files define.
//
// One runtime per process and one interpreter: subinterpreters are refused with ImportError (static
// types and counters).
#include <Python.h>

#include "datagram.hpp"
#include "exit_guard.hpp"
#include "leak_report.hpp"
#include "loop.hpp"
#include "loop_statistics.hpp"
#include "native_task.hpp"
#include "owners.hpp"
#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/graphs.hpp"
#include "ringloop/bridge/python/shared_handles.hpp"
#include "task_factory.hpp"
#include "task_steps.hpp"
#ifdef RINGLOOP_TEST_BACKEND
#include "testing/simulation.hpp"
#endif

namespace {

bool python_has_ended = false;

int execute(PyObject* module) {
    using namespace ringloop;
    // CPython asks the slot below only in interpreters with a GIL of their own, and from 3.12 on.
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "ringloop runs in the main interpreter only: it has one runtime per "
                        "process; use asyncio's own loop in subinterpreters");
        return -1;
    }
    if (python_has_ended) {
        PyErr_SetString(PyExc_ImportError,
                        "ringloop cannot be imported again: Python was finalized in this process "
                        "since, and ringloop's types went with it; initialize Python once a "
                        "process, and finalize it at its end");
        return -1;
    }
    if (static bool told = false; !told) told = Py_AtExit([] { python_has_ended = true; }) == 0;
    python::install_exit_guard();
    if (bridge::add_awaitable_types(module) < 0) return -1;
    if (bridge::add_handle_types(module) < 0) return -1;
    if (bridge::add_graph_types(module) < 0) return -1;
    if (python::add_owner_functions(module) < 0) return -1;
    if (python::add_loop_types(module) < 0) return -1;
    if (python::add_loop_statistics(module) < 0) return -1;
    if (python::add_leak_report(module) < 0) return -1;
    if (python::add_transport_types(module) < 0) return -1;
    if (python::add_datagram_types(module) < 0) return -1;
    if (python::add_socket_types(module) < 0) return -1;
    if (python::add_step_types(module) < 0) return -1;
    if (python::add_native_task_type(module) < 0) return -1;
    if (python::add_task_factory_type(module) < 0) return -1;
#ifdef RINGLOOP_TEST_BACKEND
    if (python::add_simulation_types(module) < 0) return -1;
#endif
    return python::add_file_types(module);
}

PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(&execute)},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "_native",
                          "The native half of ringloop: loop core, transports, awaitables.",
                          0,
                          nullptr,
                          slots,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__native() {
    return PyModuleDef_Init(&definition);
}
