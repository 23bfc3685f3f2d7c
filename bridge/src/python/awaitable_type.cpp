// ringloop.Awaitable as Python sees it: the coroutine's and the future's protocol over
// awaitable.cpp, its memory (a free list) and its registration. Thread: the loop's, GIL held.
#include <Python.h>
#include <structmember.h>

#include <cassert>
#include <cstddef>
#include <cstring>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/leaks.hpp"
#include "ringloop/bridge/python/task_wakeup.hpp"
#include "table.hpp"

namespace ringloop::bridge {

PyTypeObject* awaitable_type = nullptr;
long awaitables_live = 0;

namespace {

constexpr unsigned spare_max = 128;
awaitable* spare[spare_max];
unsigned spare_count = 0;
PyObject* shared_none = nullptr;  // finished, None, any number of awaits
PyObject* running_loop_function = nullptr;

awaitable& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<awaitable*>(object);
}

// ---- memory

awaitable* allocate() noexcept {
    awaitable* made = nullptr;
    if (spare_count != 0) {
        made = spare[--spare_count];
        PyObject_Init(made->object(), awaitable_type);
    } else {
        made = PyObject_GC_New(awaitable, awaitable_type);
        if (made == nullptr) return nullptr;
    }
    auto* fields = reinterpret_cast<char*>(made) + sizeof(PyObject);
    std::memset(fields, 0, sizeof(awaitable) - sizeof(PyObject));
    PyObject_GC_Track(made);
    ++awaitables_live;
    return made;
}

constexpr const char* type_name = "ringloop.Awaitable";

int traverse(PyObject* object, visitproc visit, void* arg) {
    awaitable& self = self_of(object);
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self.loop);
    Py_VISIT(self.callback);
    Py_VISIT(self.context);
    Py_VISIT(self.callbacks);
    Py_VISIT(self.outcome);
    Py_VISIT(self.message);
    Py_VISIT(self.traceback);
    if (self.work != nullptr)
        if (const int stop = self.work->traverse(visit, arg); stop != 0) return stop;
    return 0;
}

int clear(PyObject* object) {
    awaitable& self = self_of(object);
    Py_CLEAR(self.loop);
    Py_CLEAR(self.callback);
    Py_CLEAR(self.context);
    Py_CLEAR(self.callbacks);
    Py_CLEAR(self.message);
    Py_CLEAR(self.traceback);
    Py_CLEAR(self.site);
    // The outcome stays: a value may still have to go back to its source.
    return 0;
}

// Found by the collector in a cycle that nobody has any more. What is still in flight belongs to
// its host, which the collector has found as well, and ends with that; the rest ends here, with all
// that the source kept. Whoever asks for the outcome meanwhile finds a cancel.
int collected(PyObject* object) {
    awaitable& self = self_of(object);
    if (self.now == awaitable::state::pending) return clear(object);
    const bool never_began = self.now == awaitable::state::idle;
    self.now = awaitable::state::cancelled;
    self.drop_work(self.outcome, never_began);
    Py_CLEAR(self.outcome);
    return clear(object);
}

// Work that nobody began: a warning, as for a coroutine.
void warn_never_awaited(PyObject* object, const awaitable& self) {
    ref saved = take_exception();
    const int told =
        self.site == nullptr
            ? PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "ringloop.Awaitable '%s' was never awaited",
                               self.work->name())
            : PyErr_WarnFormat(PyExc_RuntimeWarning, 1,
                               "ringloop.Awaitable '%s' was never awaited\n"
                               "Awaitable created at (most recent call last)\n%U",
                               self.work->name(), self.site);
    if (told < 0) PyErr_WriteUnraisable(object);
    if (saved) restore_exception(std::move(saved));
}

[[nodiscard]] bool has_last_words(const awaitable& self) noexcept {
    if (self.now == awaitable::state::error) return !self.retrieved && self.loop != nullptr;
    return self.now == awaitable::state::idle && self.work != nullptr && self.work->warns();
}

// An exception that nobody looked at is reported, as a Future's is.
void finalize(PyObject* object) {
    awaitable& self = self_of(object);
    if (!has_last_words(self)) return;
    if (self.now == awaitable::state::idle) {
        warn_never_awaited(object, self);
        return;
    }
    ref saved = take_exception();
    const ref report = ref::steal(Py_BuildValue("{s:s,s:O,s:O}", "message",
                                                "ringloop.Awaitable exception was never retrieved",
                                                "exception", self.outcome, "future", object));
    const ref answer = report ? ref::steal(PyObject_CallMethod(self.loop, "call_exception_handler",
                                                               "O", report.get()))
                              : ref();
    if (!answer) PyErr_WriteUnraisable(object);
    if (saved) restore_exception(std::move(saved));
}

void deallocate(PyObject* object) {
    awaitable& self = self_of(object);
    if (has_last_words(self) && PyObject_CallFinalizerFromDealloc(object) < 0) return;
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self.weak_references != nullptr) PyObject_ClearWeakRefs(object);
    const bool never_began = self.now == awaitable::state::idle;
    self.drop_work(self.outcome, never_began);
    clear(object);
    Py_CLEAR(self.outcome);
    --awaitables_live;
    if (leaks_watched) [[unlikely]]
        forget_leak(object);
    if (spare_count < spare_max && PyObject_GC_IsFinalized(object) == 0)
        spare[spare_count++] = &self;
    else
        PyObject_GC_Del(object);
    Py_DECREF(type);
}

// ---- the coroutine's protocol

// Raises StopIteration(value), made without a call of its type: each await of a value that is there
// goes through it. PyErr_SetObject() with the value would be slower, and unpack tuples.
void stop_iteration(PyObject* value) noexcept {
    if (value == Py_None) return;  // null without an exception: the await's value is None
    const ref arguments = ref::steal(PyTuple_Pack(1, value));
    if (!arguments) return;
    auto* const type = reinterpret_cast<PyTypeObject*>(PyExc_StopIteration);
    ref stop = ref::steal(type->tp_new(type, arguments.get(), nullptr));
    if (!stop) return;
    Py_XSETREF(reinterpret_cast<PyStopIterationObject*>(stop.get())->value, Py_NewRef(value));
    restore_exception(std::move(stop));
}

// Its await was refused: nobody forgot it, so nothing is to be told of it.
void end_unstarted(awaitable& self) noexcept {
    ref refusal = take_exception();
    self.cancel(nullptr);
    restore_exception(std::move(refusal));
}

PySendResult step(PyObject* object, PyObject* /*sent*/, PyObject** out) {
    awaitable& self = self_of(object);
    *out = nullptr;
    const bool was_pending = self.now == awaitable::state::pending;
    if (self.now == awaitable::state::idle) {
        self.awaited = true;
        if (self.start() < 0) {
            end_unstarted(self);
            return PYGEN_ERROR;
        }
    }
    if (self.done()) {
        if (self.shared) {
            *out = Py_NewRef(Py_None);
            return PYGEN_RETURN;
        }
        if (self.taken) {
            PyErr_SetString(PyExc_RuntimeError, "this ringloop.Awaitable was awaited before");
            return PYGEN_ERROR;
        }
        self.awaited = true;
        self.taken = true;
        *out = self.take();
        self.drop_work(self.outcome, true);
        return *out != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
    }
    if (self.yielded) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this ringloop.Awaitable is being awaited already; one await each");
        return PYGEN_ERROR;
    }
    if (was_pending && self.check_loop() < 0) {
        self.awaited = false;  // its own loop may still await it
        return PYGEN_ERROR;
    }
    self.awaited = true;
    self.yielded = true;
    self.blocking = true;
    *out = Py_NewRef(object);
    return PYGEN_NEXT;
}

PyObject* iterate(PyObject* object) {
    PyObject* out = nullptr;
    switch (step(object, nullptr, &out)) {
        case PYGEN_NEXT:
            return out;
        case PYGEN_RETURN:
            stop_iteration(out);
            Py_DECREF(out);
            return nullptr;
        default:
            return nullptr;
    }
}

PyObject* await(PyObject* object) {
    awaitable& self = self_of(object);
    if (self.awaited && !self.shared) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this ringloop.Awaitable was awaited before; make a new one");
        return nullptr;
    }
    self.awaited = true;
    return Py_NewRef(object);
}

PyObject* send(PyObject* object, PyObject* value) {
    PyObject* out = nullptr;
    switch (step(object, value, &out)) {
        case PYGEN_NEXT:
            return out;
        case PYGEN_RETURN:
            if (out == Py_None)
                PyErr_SetNone(PyExc_StopIteration);
            else
                stop_iteration(out);
            Py_DECREF(out);
            return nullptr;
        default:
            return nullptr;
    }
}

PyObject* throw_in(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    if (count < 1 || count > 3)
        return PyErr_Format(PyExc_TypeError, "throw() takes 1 to 3 arguments, not %zd", count);
    PyObject* const type = args[0];
    PyObject* const value = count > 1 && args[1] != Py_None ? args[1] : nullptr;
    ref exception;
    if (PyExceptionInstance_Check(type)) {
        if (value != nullptr)
            return PyErr_Format(PyExc_TypeError, "an instance takes no separate value");
        exception = ref::share(type);
    } else if (PyExceptionClass_Check(type)) {
        if (value != nullptr && PyExceptionInstance_Check(value))
            exception = ref::share(value);
        else
            exception = ref::steal(value != nullptr ? PyObject_CallOneArg(type, value)
                                                    : PyObject_CallNoArgs(type));
        if (!exception) return nullptr;
    } else {
        return PyErr_Format(PyExc_TypeError, "throw() needs an exception, not %s",
                            Py_TYPE(type)->tp_name);
    }
    if (count > 2 && PyTraceBack_Check(args[2])) PyException_SetTraceback(exception.get(), args[2]);
    self_of(object).leave();
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
    return nullptr;
}

PyObject* close(PyObject* object, PyObject*) {
    self_of(object).leave();
    Py_RETURN_NONE;
}

// ---- the future's protocol

PyObject* done(PyObject* object, PyObject*) {
    return PyBool_FromLong(self_of(object).done());
}

PyObject* cancelled(PyObject* object, PyObject*) {
    return PyBool_FromLong(self_of(object).now == awaitable::state::cancelled);
}

PyObject* cancel(PyObject* object, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (count + named > 1 ||
        (named == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "msg") != 0))
        return PyErr_Format(PyExc_TypeError, "cancel() takes at most one argument, msg");
    PyObject* why = count + named == 1 && args[0] != Py_None ? args[0] : nullptr;
    if (self_of(object).check_thread("cancel()") < 0) return nullptr;
    return PyBool_FromLong(self_of(object).cancel(why));
}

bool refuse_unfinished(awaitable& self) noexcept {
    if (self.done()) return false;
    PyErr_SetString(invalid_state_error(), self.now == awaitable::state::idle
                                               ? "the awaitable was not started: await it"
                                               : "the result is not there yet");
    return true;
}

PyObject* result(PyObject* object, PyObject*) {
    awaitable& self = self_of(object);
    if (refuse_unfinished(self)) return nullptr;
    // With an await under way this is its task asking, which may yet throw instead of taking.
    if (!self.awaited) self.drop_work(self.outcome, true);
    return self.take();
}

PyObject* exception(PyObject* object, PyObject*) {
    awaitable& self = self_of(object);
    if (refuse_unfinished(self)) return nullptr;
    if (self.now == awaitable::state::cancelled) return self.take();
    self.retrieved = true;
    return Py_NewRef(self.now == awaitable::state::error ? self.outcome : Py_None);
}

PyObject* add_done_callback(PyObject* object, PyObject* const* args, Py_ssize_t count,
                            PyObject* names) {
    PyObject* context = nullptr;
    const Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
    if (count != 1 || named > 1 ||
        (named == 1 &&
         PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, 0), "context") != 0))
        return PyErr_Format(PyExc_TypeError, "add_done_callback() takes a function and context=");
    if (named == 1 && args[1] != Py_None) context = args[1];
    if (self_of(object).add_callback(args[0], context) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyObject* remove_done_callback(PyObject* object, PyObject* function) {
    awaitable& self = self_of(object);
    long removed = 0;
    if (self.callbacks != nullptr) {
        for (Py_ssize_t i = PyList_GET_SIZE(self.callbacks); i-- > 0;) {
            const ref pair = ref::share(PyList_GET_ITEM(self.callbacks, i));
            const int same =
                PyObject_RichCompareBool(PyTuple_GET_ITEM(pair.get(), 0), function, Py_EQ);
            if (same < 0) return nullptr;
            if (same == 0 || self.callbacks == nullptr || i >= PyList_GET_SIZE(self.callbacks))
                continue;
            if (PyList_SetSlice(self.callbacks, i, i + 1, nullptr) < 0) return nullptr;
            ++removed;
        }
    }
    if (self.callback != nullptr) {
        const ref first = ref::share(self.callback);
        const int same = PyObject_RichCompareBool(first.get(), function, Py_EQ);
        if (same < 0) return nullptr;
        if (same == 1 && self.callback == first.get()) {
            ++removed;
            Py_CLEAR(self.callback);
            Py_CLEAR(self.context);
            if (self.callbacks != nullptr && PyList_GET_SIZE(self.callbacks) > 0) {
                PyObject* pair = PyList_GET_ITEM(self.callbacks, 0);
                self.callback = Py_NewRef(PyTuple_GET_ITEM(pair, 0));
                self.context = Py_NewRef(PyTuple_GET_ITEM(pair, 1));
                if (PyList_SetSlice(self.callbacks, 0, 1, nullptr) < 0) return nullptr;
            }
        }
    }
    return PyLong_FromLong(removed);
}

PyObject* get_loop(PyObject* object, PyObject*) {
    awaitable& self = self_of(object);
    return self.loop != nullptr ? Py_NewRef(self.loop) : running_loop();
}

// None while it has no loop: asyncio then treats it as a coroutine and wraps it in a Task.
PyObject* get_blocking(PyObject* object, void*) {
    awaitable& self = self_of(object);
    if (self.loop == nullptr) Py_RETURN_NONE;
    return PyBool_FromLong(self.blocking);
}

int set_blocking(PyObject* object, PyObject* value, void*) {
    if (value == nullptr) {
        PyErr_SetString(PyExc_AttributeError, "_asyncio_future_blocking cannot be deleted");
        return -1;
    }
    const int truth = PyObject_IsTrue(value);
    if (truth < 0) return -1;
    self_of(object).blocking = truth == 1;
    return 0;
}

PyObject* get_none(PyObject*, void*) {
    Py_RETURN_NONE;
}

PyObject* get_false(PyObject*, void*) {
    Py_RETURN_FALSE;
}

const char* state_name(awaitable::state now) noexcept {
    static const char* const names[] = {"idle", "pending", "finished", "failed", "cancelled"};
    return names[static_cast<int>(now)];
}

PyObject* represent(PyObject* object) {
    awaitable& self = self_of(object);
    const char* what = self.work != nullptr ? self.work->name() : "";
    return PyUnicode_FromFormat("<ringloop.Awaitable%s%s %s>", *what != '\0' ? " " : "", what,
                                state_name(self.now));
}

PyMethodDef methods[] = {
    {"send", send, METH_O, "Resumes it: starts at the first call."},
    {"throw", method(throw_in), METH_FASTCALL, "Leaves it with an exception; its work is stopped."},
    {"close", close, METH_NOARGS, "Leaves it; its work is stopped."},
    {"done", done, METH_NOARGS, "True once it has a result, an exception or was cancelled."},
    {"cancelled", cancelled, METH_NOARGS, "True if it ended by a cancel."},
    {"cancel", method(cancel), METH_FASTCALL | METH_KEYWORDS,
     "Asks for the end. True: CancelledError follows, once the work has stopped."},
    {"result", result, METH_NOARGS, "The result, or raises what it ended with."},
    {"exception", exception, METH_NOARGS, "The exception it ended with, or None."},
    {"add_done_callback", method(add_done_callback), METH_FASTCALL | METH_KEYWORDS,
     "Calls fn(self) by the loop when it is done; starts it."},
    {"remove_done_callback", remove_done_callback, METH_O, "Returns how many were removed."},
    {"get_loop", get_loop, METH_NOARGS, "The loop it runs on."},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, "For annotations: Awaitable[int]."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef attributes[] = {
    {"_asyncio_future_blocking", get_blocking, set_blocking, nullptr, nullptr},
    {"__name__", awaitable_name, nullptr, "The native work's name.", nullptr},
    {"__qualname__", awaitable_qualified_name, nullptr, "The native work's name.", nullptr},
    {"cr_await", get_none, nullptr, "None: what it waits for is native.", nullptr},
    {"cr_frame", awaitable_frame, nullptr, "A frame of that name; None once done.", nullptr},
    {"cr_code", awaitable_code, nullptr, "Code of that name, which does nothing.", nullptr},
    {"cr_running", get_false, nullptr, "False: never on Python's stack.", nullptr},
    {"cr_suspended", awaitable_suspended, nullptr, "True while it is pending.", nullptr},
    {"cr_state", awaitable_state, nullptr, "As inspect.getcoroutinestate() has it.", nullptr},
    {"cr_origin", get_none, nullptr, "None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(awaitable, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("Native work under way: a coroutine and a future in one.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(collected)},
    {Py_tp_finalize, reinterpret_cast<void*>(finalize)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_tp_iternext, reinterpret_cast<void*>(iterate)},
    {Py_am_await, reinterpret_cast<void*>(await)},
    {Py_am_send, reinterpret_cast<void*>(step)},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {type_name, sizeof(awaitable), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                        Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

int register_coroutine() noexcept {
    const ref abc = ref::steal(PyImport_ImportModule("collections.abc"));
    const ref coroutine = abc ? ref::steal(PyObject_GetAttrString(abc.get(), "Coroutine")) : ref();
    if (!coroutine) return -1;
    const ref answer = ref::steal(PyObject_CallMethod(coroutine.get(), "register", "O",
                                                      reinterpret_cast<PyObject*>(awaitable_type)));
    return answer ? 0 : -1;
}

}  // namespace

PyObject* running_loop() noexcept {
    PyObject* loop = PyObject_CallNoArgs(running_loop_function);
    if (loop != Py_None) return loop;
    Py_DECREF(loop);
    PyErr_SetString(PyExc_RuntimeError,
                    "no running event loop: a ringloop.Awaitable starts inside one (asyncio.run, "
                    "ringloop.run)");
    return nullptr;
}

PyObject* new_awaitable(std::unique_ptr<source> work) noexcept {
    if (!work) return PyErr_NoMemory();
    awaitable* made = allocate();
    if (made == nullptr) return nullptr;
    made->work = work.release();
    if (made->work->warns() || leaks_watched) made->site = creation_site();
    if (leaks_watched) [[unlikely]]
        note_leak(made->object(), type_name, made->work->name(), made->site);
    return made->object();
}

PyObject* finished_none() noexcept {
    return Py_NewRef(shared_none);
}

PyObject* finished_value(ref value) noexcept {
    awaitable* made = allocate();
    if (made == nullptr) return nullptr;
    made->outcome = value.release();
    made->now = awaitable::state::value;
    if (leaks_watched) [[unlikely]]
        note_leak(made->object(), type_name, "", nullptr);
    return made->object();
}

int add_awaitable_types(PyObject* module) noexcept {
    const ref events = ref::steal(PyImport_ImportModule("asyncio.events"));
    if (!events || cancelled_error() == nullptr || invalid_state_error() == nullptr) return -1;
    if (add_affinity_error(module) < 0) return -1;
    running_loop_function = PyObject_GetAttrString(events.get(), "_get_running_loop");
    if (running_loop_function == nullptr) return -1;
    PyObject* type = PyType_FromModuleAndSpec(module, &spec, nullptr);
    if (type == nullptr) return -1;
    awaitable_type = reinterpret_cast<PyTypeObject*>(type);
    if (register_coroutine() < 0 || PyModule_AddObjectRef(module, "Awaitable", type) < 0) return -1;
    shared_none = finished_value(ref::share(Py_None));
    if (shared_none == nullptr) return -1;
    self_of(shared_none).shared = true;
    --awaitables_live;
    if (prepare_wakeups() < 0 || add_guest_types() < 0 || add_iterator_type() < 0) return -1;
    if (add_export_statistics(module) < 0 || add_memory_functions(module) < 0) return -1;
    return add_python_api(module);
}

}  // namespace ringloop::bridge
