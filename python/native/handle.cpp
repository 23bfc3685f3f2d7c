// Handles: making, running, cancelling. Contract in handle.hpp.
#include "handle.hpp"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "handled_scope.hpp"
#include "ledger.hpp"
#include "loop_object.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

PyTypeObject* handle_type = nullptr;
PyTypeObject* timer_handle_type = nullptr;

namespace {

using bridge::ref;

constexpr int free_list_max = 256;
handle_object* free_list[free_list_max];
int free_count = 0;
long live_handles = 0;

handle_object* allocate(PyTypeObject* type) noexcept {
    handle_object* self;
    if (free_count > 0) {
        self = free_list[--free_count];
        PyObject_Init(reinterpret_cast<PyObject*>(self), type);
    } else {
        self = PyObject_New(handle_object, type);
        if (self == nullptr) return nullptr;
    }
    ++live_handles;
    return self;
}

void handle_dealloc(PyObject* object) noexcept {
    auto* self = reinterpret_cast<handle_object*>(object);
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
    handle_drop(self);
    Py_XDECREF(self->traceback);
    Py_XDECREF(self->description);
    PyTypeObject* type = Py_TYPE(object);
    --live_handles;
    if (free_count < free_list_max) {
        free_list[free_count++] = self;
    } else {
        PyObject_Free(object);
    }
    Py_DECREF(type);
}

void set_arguments(handle_object* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    self->count = static_cast<int>(count);
    for (Py_ssize_t i = 0; i < count; ++i) self->slots[1 + i] = Py_NewRef(arguments[i]);
}

// What a run holds in its hands: the handle may be cancelled, or freed, by its own callback.
struct taken {
    ref callback;
    ref context;
    PyObject* slots[1 + inline_arguments_max];
    int count;

    // keep: the handle stays as it is (add_reader's run many times).
    taken(handle_object* h, bool keep) noexcept
        : callback(keep ? ref::share(h->callback) : ref::steal(h->callback)),
          context(keep ? ref::share(h->context) : ref::steal(h->context)),
          count(h->count) {
        const int held = count < 0 ? 1 : count;
        for (int i = 0; i < held; ++i) {
            slots[1 + i] = h->slots[1 + i];
            if (keep) Py_INCREF(slots[1 + i]);
        }
        if (keep) return;
        h->callback = nullptr;
        h->context = nullptr;
        h->count = 0;
    }
    taken(const taken&) = delete;
    taken& operator=(const taken&) = delete;
    ~taken() {
        const int held = count < 0 ? 1 : count;
        for (int i = 0; i < held; ++i) Py_DECREF(slots[1 + i]);
    }

    [[nodiscard]] PyObject* call() noexcept {
        if (count >= 0) {
            const size_t flags = static_cast<size_t>(count) | PY_VECTORCALL_ARGUMENTS_OFFSET;
            return PyObject_Vectorcall(callback.get(), slots + 1, flags, nullptr);
        }
        return PyObject_Call(callback.get(), slots[1], nullptr);
    }

    // Gives everything back, for reports and for debug mode.
    void put_back(handle_object* h) noexcept {
        if (h->callback != nullptr || h->cancelled) return;
        h->callback = callback.release();
        h->context = context.release();
        h->count = count;
        const int held = count < 0 ? 1 : count;
        for (int i = 0; i < held; ++i) h->slots[1 + i] = slots[1 + i];
        count = 0;
    }
};

// loop._report_handle(handle, exception): cold, so in Python.
int report(loop_object* loop, PyObject* handle) noexcept {
    if (PyErr_ExceptionMatches(PyExc_SystemExit) || PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        return -1;
    ref exception = bridge::take_exception();
    const handled_scope handled(exception.get());
    ref done = ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(loop), "_report_handle",
                                              "OO", handle, exception.get()));
    return done ? 0 : -1;
}

int run_taken(handle_object* self, loop_object* loop, taken& work) noexcept {
    if (PyContext_Enter(work.context.get()) < 0) {
        work.put_back(self);
        return report(loop, reinterpret_cast<PyObject*>(self));
    }
    ref result = ref::steal(work.call());
    if (result) return PyContext_Exit(work.context.get());
    ref exception = bridge::take_exception();
    if (PyContext_Exit(work.context.get()) < 0) PyErr_Clear();
    bridge::restore_exception(std::move(exception));
    work.put_back(self);
    return report(loop, reinterpret_cast<PyObject*>(self));
}

// Where threads wait for callbacks of thread-safe handles to end: one place for all, it is rare.
// Whoever holds the mutex never waits for the GIL.
std::mutex ends_mutex;
std::condition_variable ends;

int run_threadsafe(handle_object* self, loop_object* loop, taken& work) noexcept {
    self->runner = PyThread_get_thread_ident();
    const int result = run_taken(self, loop, work);
    self->runner = 0;
    if (self->is_awaited) {
        self->is_awaited = false;
        const std::lock_guard lock(ends_mutex);
        ends.notify_all();
    }
    return result;
}

// Returns at once in the callback's own thread. -1 with an exception set if a signal's handler
// raised, which asyncio's lock lets through as well.
int await_run(handle_object* self) noexcept {
    constexpr std::chrono::milliseconds look_for_signals{50};
    while (self->runner != 0 && self->runner != PyThread_get_thread_ident()) {
        self->is_awaited = true;
        std::unique_lock lock(ends_mutex);
        PyThreadState* state = PyEval_SaveThread();
        ends.wait_for(lock, look_for_signals);
        lock.unlock();
        PyEval_RestoreThread(state);
        if (PyErr_CheckSignals() < 0) return -1;
    }
    return 0;
}

}  // namespace

handle_object* make_handle(loop_object* loop, bool timer, PyObject* callback,
                           PyObject* const* arguments, Py_ssize_t count,
                           PyObject* context) noexcept {
    ref own_context;
    if (context == nullptr || context == Py_None) {
        own_context = ref::steal(PyContext_CopyCurrent());
        if (!own_context) return nullptr;
    } else if (PyContext_CheckExact(context)) {
        own_context = ref::share(context);
    } else {
        PyErr_Format(PyExc_TypeError, "context must be a contextvars.Context or None, not %.200s",
                     Py_TYPE(context)->tp_name);
        return nullptr;
    }
    ref tuple;
    if (count > inline_arguments_max) {
        tuple = ref::steal(PyTuple_New(count));
        if (!tuple) return nullptr;
        for (Py_ssize_t i = 0; i < count; ++i)
            PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(arguments[i]));
    }
    handle_object* self = allocate(timer ? timer_handle_type : handle_type);
    if (self == nullptr) return nullptr;
    self->loop = loop;
    self->callback = Py_NewRef(callback);
    self->context = own_context.release();
    if (tuple) {
        self->slots[1] = tuple.release();
        self->count = -1;
    } else {
        set_arguments(self, arguments, count);
    }
    self->cancelled = false;
    self->is_timer = timer;
    self->is_threadsafe = false;
    self->is_awaited = false;
    self->runner = 0;
    self->traceback = nullptr;
    self->description = nullptr;
    self->weak_references = nullptr;
    self->heap_index = no_heap_index;
    if (loop->debug && loop_set_traceback(self) < 0) {
        Py_DECREF(self);
        return nullptr;
    }
    return self;
}

void handle_drop(handle_object* self) noexcept {
    self->loop = nullptr;
    const int held = self->count < 0 ? 1 : self->count;
    self->count = 0;
    PyObject* dropped[1 + inline_arguments_max];
    for (int i = 0; i < held; ++i) dropped[i] = self->slots[1 + i];
    Py_CLEAR(self->callback);
    Py_CLEAR(self->context);
    for (int i = 0; i < held; ++i) Py_DECREF(dropped[i]);
}

int handle_run(handle_object* self) noexcept {
    if (self->cancelled || self->callback == nullptr) return 0;
    loop_object* loop = self->loop;
    if (!loop->debug) return handle_run_plain(self);
    const int result = loop_run_debug(loop, self);
    handle_drop(self);
    return result;
}

int handle_run_plain(handle_object* self) noexcept {
    if (self->cancelled || self->callback == nullptr) return 0;
    loop_object* loop = self->loop;
    taken work(self, false);
    const int result =
        self->is_threadsafe ? run_threadsafe(self, loop, work) : run_taken(self, loop, work);
    if (loop->debug) {
        work.put_back(self);
    } else {
        handle_drop(self);  // a report may have given the callback back: it must not hold a cycle
    }
    return result;
}

int handle_run_again(handle_object* self) noexcept {
    loop_object* loop = self->loop;
    if (self->cancelled || self->callback == nullptr || loop == nullptr) return 0;
    if (loop->debug) return loop_run_debug(loop, self);
    taken work(self, true);
    return run_taken(self, loop, work);
}

int handle_traverse_contents(handle_object* self, visitproc visit, void* arg) noexcept {
    Py_VISIT(self->callback);
    Py_VISIT(self->context);
    const int held = self->count < 0 ? 1 : self->count;
    for (int i = 0; i < held; ++i) Py_VISIT(self->slots[1 + i]);
    return 0;
}

namespace {

handle_object* cast(PyObject* object) noexcept {
    return reinterpret_cast<handle_object*>(object);
}

PyObject* handle_cancel(PyObject* object, PyObject*) noexcept {
    handle_object* self = cast(object);
    if (self->runner != 0 && await_run(self) < 0) return nullptr;
    if (self->cancelled) Py_RETURN_NONE;
    loop_object* loop = self->loop;
    self->cancelled = true;
    if (loop != nullptr && loop->debug && self->description == nullptr) {
        self->description = PyObject_Repr(object);  // while it still knows its callback
        if (self->description == nullptr) PyErr_WriteUnraisable(object);
    }
    const bool queued = self->is_timer && self->heap_index != no_heap_index;
    if (queued) loop_forget_timer(loop, self);  // drops the heap's reference: we hold the caller's
    handle_drop(self);
    Py_RETURN_NONE;
}

PyObject* handle_cancelled(PyObject* object, PyObject*) noexcept {
    if (cast(object)->runner != 0 && await_run(cast(object)) < 0) return nullptr;
    return PyBool_FromLong(cast(object)->cancelled);
}

PyObject* handle_get_context(PyObject* object, PyObject*) noexcept {
    PyObject* context = cast(object)->context;
    return Py_NewRef(context != nullptr ? context : Py_None);
}

PyObject* handle_run_method(PyObject* object, PyObject*) noexcept {
    handle_object* self = cast(object);
    if (self->loop == nullptr) Py_RETURN_NONE;
    if (handle_run_plain(self) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* handle_when(PyObject* object, PyObject*) noexcept {
    return PyFloat_FromDouble(cast(object)->when);
}

PyObject* handle_repr(PyObject* object) noexcept {
    if (cast(object)->description != nullptr) return Py_NewRef(cast(object)->description);
    ref module = ref::steal(PyImport_ImportModule("ringloop._handles"));
    if (!module) return nullptr;
    return PyObject_CallMethod(module.get(), "describe", "O", object);
}

PyObject* timer_compare(PyObject* a, PyObject* b, int operation) noexcept {
    if (Py_TYPE(a) != timer_handle_type || Py_TYPE(b) != timer_handle_type)
        Py_RETURN_NOTIMPLEMENTED;
    if (operation == Py_EQ) return PyBool_FromLong(a == b);
    if (operation == Py_NE) return PyBool_FromLong(a != b);
    const double left = cast(a)->when, right = cast(b)->when;
    Py_RETURN_RICHCOMPARE(left, right, operation);
}

Py_hash_t timer_hash(PyObject* object) noexcept {
    ref number = ref::steal(PyFloat_FromDouble(cast(object)->when));
    return number ? PyObject_Hash(number.get()) : -1;
}

PyObject* asyncio_class(const char* name) noexcept {
    ref events = ref::steal(PyImport_ImportModule("asyncio.events"));
    return events ? PyObject_GetAttrString(events.get(), name) : nullptr;
}

PyObject* newer_handle_class() noexcept {
    return handles_are_threadsafe ? asyncio_class("_ThreadSafeHandle") : nullptr;
}

PyObject* get_class(PyObject* object, void*) noexcept {
    static PyObject* plain = asyncio_class("Handle");
    static PyObject* timer = asyncio_class("TimerHandle");
    static PyObject* threadsafe = newer_handle_class();
    const handle_object* self = cast(object);
    PyObject* type = self->is_timer ? timer : self->is_threadsafe ? threadsafe : plain;
    return Py_NewRef(type != nullptr ? type : reinterpret_cast<PyObject*>(Py_TYPE(object)));
}

PyObject* or_none(PyObject* object) noexcept {
    return Py_NewRef(object != nullptr ? object : Py_None);
}

PyObject* get_callback(PyObject* object, void*) noexcept {
    return or_none(cast(object)->callback);
}
PyObject* get_context(PyObject* object, void*) noexcept {
    return or_none(cast(object)->context);
}
PyObject* get_traceback(PyObject* object, void*) noexcept {
    return or_none(cast(object)->traceback);
}
PyObject* get_loop(PyObject* object, void*) noexcept {
    return or_none(reinterpret_cast<PyObject*>(cast(object)->loop));
}
PyObject* get_cancelled(PyObject* object, void*) noexcept {
    return PyBool_FromLong(cast(object)->cancelled);
}
PyObject* get_when(PyObject* object, void*) noexcept {
    return PyFloat_FromDouble(cast(object)->when);
}
PyObject* get_scheduled(PyObject* object, void*) noexcept {
    return PyBool_FromLong(cast(object)->heap_index != no_heap_index);
}

PyObject* get_args(PyObject* object, void*) noexcept {
    handle_object* self = cast(object);
    if (self->callback == nullptr) Py_RETURN_NONE;
    if (self->count < 0) return Py_NewRef(self->slots[1]);
    PyObject* tuple = PyTuple_New(self->count);
    if (tuple == nullptr) return nullptr;
    for (int i = 0; i < self->count; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(self->slots[1 + i]));
    return tuple;
}

PyMethodDef handle_methods[] = {
    {"cancel", handle_cancel, METH_NOARGS, "Cancels the callback; no effect if it ran already."},
    {"cancelled", handle_cancelled, METH_NOARGS, "True after cancel()."},
    {"get_context", handle_get_context, METH_NOARGS, "The contextvars.Context that it runs in."},
    {"_run", handle_run_method, METH_NOARGS, "Calls the callback now."},
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef timer_methods[] = {
    {"cancel", handle_cancel, METH_NOARGS, "Cancels the timer and removes it from the loop."},
    {"cancelled", handle_cancelled, METH_NOARGS, "True after cancel()."},
    {"get_context", handle_get_context, METH_NOARGS, "The contextvars.Context that it runs in."},
    {"_run", handle_run_method, METH_NOARGS, "Calls the callback now."},
    {"when", handle_when, METH_NOARGS, "The deadline, in seconds on loop.time()'s clock."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef handle_properties[] = {{"__class__", get_class, nullptr, nullptr, nullptr},
                                   {"_callback", get_callback, nullptr, nullptr, nullptr},
                                   {"_args", get_args, nullptr, nullptr, nullptr},
                                   {"_context", get_context, nullptr, nullptr, nullptr},
                                   {"_loop", get_loop, nullptr, nullptr, nullptr},
                                   {"_cancelled", get_cancelled, nullptr, nullptr, nullptr},
                                   {"_source_traceback", get_traceback, nullptr, nullptr, nullptr},
                                   {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyGetSetDef timer_properties[] = {{"__class__", get_class, nullptr, nullptr, nullptr},
                                  {"_callback", get_callback, nullptr, nullptr, nullptr},
                                  {"_args", get_args, nullptr, nullptr, nullptr},
                                  {"_context", get_context, nullptr, nullptr, nullptr},
                                  {"_loop", get_loop, nullptr, nullptr, nullptr},
                                  {"_cancelled", get_cancelled, nullptr, nullptr, nullptr},
                                  {"_source_traceback", get_traceback, nullptr, nullptr, nullptr},
                                  {"_when", get_when, nullptr, nullptr, nullptr},
                                  {"_scheduled", get_scheduled, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef handle_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(handle_object, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, slot(handle_dealloc)}, {Py_tp_repr, slot(handle_repr)},
    {Py_tp_methods, handle_methods},       {Py_tp_getset, handle_properties},
    {Py_tp_members, handle_members},       {0, nullptr}};
PyType_Slot timer_slots[] = {
    {Py_tp_dealloc, slot(handle_dealloc)},    {Py_tp_repr, slot(handle_repr)},
    {Py_tp_richcompare, slot(timer_compare)}, {Py_tp_hash, slot(timer_hash)},
    {Py_tp_methods, timer_methods},           {Py_tp_getset, timer_properties},
    {Py_tp_members, handle_members},          {0, nullptr}};
constexpr unsigned type_flags =
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE;
PyType_Spec handle_spec = {"ringloop._native.Handle", sizeof(handle_object), 0, type_flags,
                           handle_slots};
PyType_Spec timer_spec = {"ringloop._native.TimerHandle", sizeof(handle_object), 0, type_flags,
                          timer_slots};

}  // namespace

int add_handle_types(PyObject* module) noexcept {
    ledger_add("handles", &live_handles);
    handle_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &handle_spec, nullptr));
    timer_handle_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &timer_spec, nullptr));
    if (handle_type == nullptr || timer_handle_type == nullptr) return -1;
    if (PyModule_AddObjectRef(module, "Handle", reinterpret_cast<PyObject*>(handle_type)) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "TimerHandle",
                                 reinterpret_cast<PyObject*>(timer_handle_type));
}

}  // namespace ringloop::python
