// References that native code dropped without the GIL. The interpreter's main thread drops them in
// a pending call; what no memory is left for is leaked rather than touched without the lock.
//
// Thread: any for release_later(); the pending call runs in the main thread with the GIL.
#include <Python.h>

#include <mutex>
#include <vector>

#include "table.hpp"

namespace ringloop::bridge {
namespace {

struct queue {
    std::mutex mutex;
    std::vector<PyObject*> objects;
    bool announced = false;
};
// Never destroyed: threads may outlive the interpreter.
queue& all() noexcept {
    static auto* const made = new queue;
    return *made;
}

int release_all(void*) noexcept {
    std::vector<PyObject*> taken;
    {
        const std::lock_guard lock(all().mutex);
        taken.swap(all().objects);
        all().announced = false;
    }
    for (PyObject* object : taken) Py_DECREF(object);
    return 0;
}

}  // namespace

void release_later(PyObject* object) noexcept {
    if (Py_IsInitialized() == 0) return;  // the interpreter has gone, and the object with it
    queue& to = all();
    const std::lock_guard lock(to.mutex);
    try {
        to.objects.push_back(object);
    } catch (...) {
        return;
    }
    // Refused where 32 calls wait already: the next reference announces again.
    if (!to.announced) to.announced = Py_AddPendingCall(&release_all, nullptr) == 0;
}

}  // namespace ringloop::bridge
