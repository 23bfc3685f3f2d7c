// The report of leaks. Contract in leak_report.hpp.
//
// Thread: report() runs when the interpreter has ended, on the thread that ended it; no Python
// there.
#include "leak_report.hpp"

#include <unistd.h>

#include <cstdio>

#include "ledger.hpp"
#include "ringloop/bridge/python/leaks.hpp"

namespace ringloop::python {
namespace {

// Of the ledger: what a program opens and closes itself. The rest goes with these and awaitables.
constexpr const char* told[] = {"loops",     "transports", "datagram_transports",
                                "listeners", "files",      "shared_handles"};

pid_t watched_in = 0;
bool headed = false;

void head() noexcept {
    if (!headed) std::fputs("ringloop: alive when the interpreter had ended:\n", stderr);
    headed = true;
}

void tell_objects(const char* type, const char* name, const char* site, long count) {
    head();
    // tidy-allow: banned because the interpreter has ended, and its stderr with it
    std::fprintf(stderr, "  %ld %s%s%s\n", count, type, *name != '\0' ? " made by " : "", name);
    // tidy-allow: banned because the interpreter has ended, and its stderr with it
    if (*site != '\0') std::fprintf(stderr, "  created at (most recent call last)\n%s", site);
}

void report() noexcept {
    // What a forked child has of its parent's is no leak of the child's.
    if (watched_in != getpid()) return;
    bridge::each_leak(&tell_objects);
    for (const char* name : told) {
        const long count = ledger_count(name);
        if (count == 0) continue;
        head();
        // tidy-allow: banned because the interpreter has ended, and its stderr with it
        std::fprintf(stderr, "  %ld %s\n", count, name);
    }
}

PyObject* report_leaks(PyObject*, PyObject*) {
    if (watched_in != 0) Py_RETURN_NONE;
    if (Py_AtExit(&report) < 0) {
        const int warned = PyErr_WarnEx(PyExc_RuntimeWarning,
                                        "ringloop cannot report leaks: the interpreter takes 32 "
                                        "functions for its end, and others have them all",
                                        1);
        if (warned < 0) return nullptr;
        Py_RETURN_NONE;
    }
    if (!bridge::watch_leaks()) return PyErr_NoMemory();
    watched_in = getpid();
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"_report_leaks", report_leaks, METH_NOARGS, "Tells on stderr what outlives the interpreter."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_leak_report(PyObject* module) noexcept {
    return PyModule_AddFunctions(module, methods);
}

}  // namespace ringloop::python
