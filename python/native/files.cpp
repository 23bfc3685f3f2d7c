// Native file operations: see below.
#include "ledger.hpp"
#include "loop.hpp"
#include "probe.hpp"
#include "ringloop/bridge/python/awaitable.hpp"

namespace ringloop::python {
int add_file_types(PyObject* module) noexcept {
    ledger_add("awaitables", &bridge::awaitables_live);
    ledger_add("awaits_pending", &bridge::awaitables_pending);
    return add_probe(module);
}
}  // namespace ringloop::python
