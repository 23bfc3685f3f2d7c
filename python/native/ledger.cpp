// The ledger's table. GIL held throughout.
#include "ledger.hpp"

#include <cstring>
#include <vector>

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {
namespace {

struct entry {
    const char* name;
    const long* counter;
    long (*count)();

    [[nodiscard]] long value() const noexcept { return counter != nullptr ? *counter : count(); }
};

std::vector<entry>& entries() {
    static std::vector<entry> table;
    return table;
}

}  // namespace

void ledger_add(const char* name, const long* counter) noexcept {
    entries().push_back({name, counter, nullptr});
}

void ledger_add(const char* name, long (*count)()) noexcept {
    entries().push_back({name, nullptr, count});
}

long ledger_count(const char* name) noexcept {
    for (const entry& e : entries())
        if (std::strcmp(e.name, name) == 0) return e.value();
    return 0;
}

PyObject* ledger_dict(PyObject*, PyObject*) noexcept {
    bridge::ref dict = bridge::ref::steal(PyDict_New());
    if (!dict) return nullptr;
    for (const entry& e : entries()) {
        bridge::ref number = bridge::ref::steal(PyLong_FromLong(e.value()));
        if (!number || PyDict_SetItemString(dict.get(), e.name, number.get()) < 0) return nullptr;
    }
    return dict.release();
}

}  // namespace ringloop::python
