// The account of live awaitables and iterators. Contract in leaks.hpp.
#include "ringloop/bridge/python/leaks.hpp"

#include <map>
#include <new>
#include <string>
#include <tuple>
#include <unordered_map>

namespace ringloop::bridge {

bool leaks_watched = false;

namespace {

struct made {
    const char* type;
    const char* name;  // a literal, or an export's: as long as the process
    std::string site;
};
using account = std::unordered_map<PyObject*, made>;
// Never destroyed: objects may outlive everything.
account* alive = nullptr;

}  // namespace

bool watch_leaks() noexcept {
    if (alive == nullptr) alive = new (std::nothrow) account;
    leaks_watched = alive != nullptr;
    return leaks_watched;
}

void note_leak(PyObject* object, const char* type, const char* name, PyObject* site) noexcept {
    const char* where = site != nullptr ? PyUnicode_AsUTF8(site) : "";
    if (where == nullptr) {
        PyErr_Clear();  // a file's name that is no text: goes without
        where = "";
    }
    try {
        alive->insert_or_assign(object, made{type, name, where});
    } catch (const std::bad_alloc&) {
        return;  // no memory: if it leaks, it does so untold
    }
}

void forget_leak(PyObject* object) noexcept {
    alive->erase(object);
}

void each_leak(void (*visit)(const char*, const char*, const char*, long)) {
    std::map<std::tuple<std::string, std::string, std::string>, long> kinds;
    for (const auto& [object, about] : *alive) ++kinds[{about.type, about.name, about.site}];
    for (const auto& [kind, count] : kinds) {
        const auto& [type, name, site] = kind;
        visit(type.c_str(), name.c_str(), site.c_str(), count);
    }
}

}  // namespace ringloop::bridge
