// The `steps` object: a coroutine around a task's, which calls the hooks (step_hooks.hpp). What a
// hook raises that is no Exception (KeyboardInterrupt) becomes the step's.
#include "task_steps.hpp"

#include <structmember.h>

#include <cstddef>
#include <utility>

#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/host.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

PyTypeObject* steps_type = nullptr;
PyObject* current_task_function = nullptr;  // asyncio.current_task
PyObject* is_coroutine_function = nullptr;  // asyncio.iscoroutine

struct steps {
    PyObject_HEAD PyObject* inner;  // the coroutine
    // The task that makes the steps, where that is known; until the coroutine has ended, so that
    // the two do not keep each other.
    PyObject* task;
    PyObject* weak_references;
    bool begun;       // a step was made
    bool ended;       // the last one was
    bool told_ready;  // on_ready was called for the step to come
};

constexpr unsigned spare_max = 64;
steps* spare[spare_max];
unsigned spare_count = 0;

steps& self_of(PyObject* object) noexcept {
    return *reinterpret_cast<steps*>(object);
}

// time.perf_counter(), which goes on during a step, also where the loop's own clock is virtual.
double now_s() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyTime_t now = 0;
    if (PyTime_PerfCounter(&now) < 0) PyErr_Clear();  // it cannot fail where it has worked
    return static_cast<double>(now) * 1e-9;
#else
    return static_cast<double>(_PyTime_GetPerfCounter()) * 1e-9;
#endif
}

// The task whose step this is; null without an exception: somebody drives the coroutine by hand.
ref task_of_this_step() noexcept {
    ref task = ref::steal(PyObject_CallNoArgs(current_task_function));
    if (task && task.get() != Py_None) return task;
    PyErr_Clear();  // no loop runs here
    return {};
}

int tell_ready(steps& self, PyObject* task) noexcept {
    self.told_ready = true;
    return call_hooks(on_ready, task);
}

void end(steps& self) noexcept {
    self.ended = true;
    const ref dropped = ref::steal(std::exchange(self.task, nullptr));
}

// ---- on_ready: what the task waits for is done

PyObject* is_done(PyObject* steps_and_task, PyObject* /*future*/) {
    steps& self = self_of(PyTuple_GET_ITEM(steps_and_task, 0));
    if (!self.told_ready && tell_ready(self, PyTuple_GET_ITEM(steps_and_task, 1)) < 0)
        return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef is_done_method = {"is_done", is_done, METH_O, nullptr};

// Before the task itself, so that it is called before the task's next step.
int watch(steps& self, PyObject* yielded, PyObject* task) noexcept {
    if (yielded == Py_None) return tell_ready(self, task);
    static PyObject* const word = PyUnicode_InternFromString("add_done_callback");
    const ref add = ref::steal(PyObject_GetAttr(yielded, word));
    if (!add) {
        PyErr_Clear();  // the task will say what is wrong with it
        return 0;
    }
    const ref pair = ref::steal(PyTuple_Pack(2, reinterpret_cast<PyObject*>(&self), task));
    const ref callback = pair ? ref::steal(PyCFunction_New(&is_done_method, pair.get())) : ref();
    const ref added = callback ? ref::steal(PyObject_CallOneArg(add.get(), callback.get())) : ref();
    return added ? 0 : -1;
}

// ---- one step

struct step_account {
    ref task;
    double begin_s = -1;  // negative: not measured
};

int before(steps& self, step_account& account) noexcept {
    account.task = self.task != nullptr ? ref::share(self.task) : task_of_this_step();
    if (!account.task) return 0;
    if (!self.told_ready && call_hooks(on_ready, account.task.get()) < 0) return -1;
    self.told_ready = false;
    if (call_hooks(before_run, account.task.get()) < 0) return -1;
    if (on_slow) account.begin_s = now_s();
    return 0;
}

int tell_slow(const step_account& account) noexcept {
    const double took_s = now_s() - account.begin_s;
    const ref loop = ref::steal(bridge::running_loop());
    if (!loop) return -1;
    static PyObject* const word = PyUnicode_InternFromString("slow_callback_duration");
    const ref limit = ref::steal(PyObject_GetAttr(loop.get(), word));
    const double limit_s = limit ? PyFloat_AsDouble(limit.get()) : -1;
    if (PyErr_Occurred() != nullptr) return -1;
    return took_s < limit_s ? 0 : call_hooks(on_slow, account.task.get(), true, took_s);
}

int after(steps& self, const step_account& account, PyObject* yielded) noexcept {
    if (!account.task) return 0;
    if (call_hooks(after_run, account.task.get()) < 0) return -1;
    if (account.begin_s >= 0 && tell_slow(account) < 0) return -1;
    if (yielded != nullptr && on_ready) return watch(self, yielded, account.task.get());
    return 0;
}

// Hooks after a step that ended as `result`; what the step raised stays set.
PySendResult finish(steps& self, const step_account& account, PySendResult result,
                    PyObject** out) noexcept {
    if (result != PYGEN_NEXT) end(self);
    if (!after_run && !on_ready && account.begin_s < 0) return result;
    ref raised = bridge::take_exception();
    if (after(self, account, result == PYGEN_NEXT ? *out : nullptr) < 0) {
        Py_CLEAR(*out);
        end(self);
        ref ending = bridge::take_exception();
        if (raised) PyException_SetContext(ending.get(), raised.release());
        bridge::restore_exception(std::move(ending));
        return PYGEN_ERROR;
    }
    if (raised) bridge::restore_exception(std::move(raised));
    return result;
}

// A hook has raised what is no Exception: the coroutine gets it.
PySendResult interrupt(steps& self, PyObject** out) noexcept {
    const ref why = bridge::take_exception();
    *out = PyObject_CallMethod(self.inner, "throw", "O", why.get());
    if (*out != nullptr) return PYGEN_NEXT;
    end(self);
    if (PyErr_ExceptionMatches(PyExc_StopIteration) == 0) return PYGEN_ERROR;
    const ref stop = bridge::take_exception();
    *out = PyObject_GetAttrString(stop.get(), "value");
    return *out != nullptr ? PYGEN_RETURN : PYGEN_ERROR;
}

PySendResult step(PyObject* object, PyObject* value, PyObject** out) {
    steps& self = self_of(object);
    self.begun = true;
    *out = nullptr;
    if (!step_hooks_set) {
        const PySendResult result = PyIter_Send(self.inner, value, out);
        if (result != PYGEN_NEXT) end(self);
        return result;
    }
    step_account account;
    if (before(self, account) < 0) return interrupt(self, out);
    return finish(self, account, PyIter_Send(self.inner, value, out), out);
}

// ---- the coroutine's protocol

// A step's result as send() and throw() give it.
PyObject* as_answer(PySendResult result, PyObject* out) noexcept {
    if (result != PYGEN_RETURN) return out;
    const ref returned = ref::steal(out);
    const ref stop = ref::steal(PyObject_CallOneArg(PyExc_StopIteration, out));
    if (stop) PyErr_SetObject(PyExc_StopIteration, stop.get());
    return nullptr;
}

PyObject* send(PyObject* object, PyObject* value) {
    PyObject* out = nullptr;
    const PySendResult result = step(object, value, &out);
    return as_answer(result, out);
}

PyObject* throw_in(PyObject* object, PyObject* arguments) {
    steps& self = self_of(object);
    const ref inner_throw = ref::steal(PyObject_GetAttrString(self.inner, "throw"));
    if (!inner_throw) return nullptr;
    self.begun = true;
    PyObject* out = nullptr;
    if (!step_hooks_set) {
        out = PyObject_CallObject(inner_throw.get(), arguments);
        if (out == nullptr) end(self);
        return out;
    }
    step_account account;
    if (before(self, account) < 0) {
        const PySendResult result = interrupt(self, &out);
        return as_answer(result, out);
    }
    out = PyObject_CallObject(inner_throw.get(), arguments);
    finish(self, account, out != nullptr ? PYGEN_NEXT : PYGEN_ERROR, &out);
    return out;
}

PyObject* close(PyObject* object, PyObject*) {
    end(self_of(object));
    return PyObject_CallMethod(self_of(object).inner, "close", nullptr);
}

PyObject* await(PyObject* object) {
    return PyObject_CallMethod(self_of(object).inner, "__await__", nullptr);
}

// cr_frame, __qualname__ and what else tells of a coroutine is the inner one's.
PyObject* get_attribute(PyObject* object, PyObject* name) {
    PyObject* found = PyObject_GenericGetAttr(object, name);
    if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0) return found;
    PyErr_Clear();
    return PyObject_GetAttr(self_of(object).inner, name);
}

PyObject* represent(PyObject* object) {
    return PyObject_Repr(self_of(object).inner);
}

int traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    Py_VISIT(self_of(object).inner);
    Py_VISIT(self_of(object).task);
    return 0;
}

int clear(PyObject* object) {
    Py_CLEAR(self_of(object).inner);
    Py_CLEAR(self_of(object).task);
    return 0;
}

void deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    if (self_of(object).weak_references != nullptr) PyObject_ClearWeakRefs(object);
    clear(object);
    if (spare_count < spare_max)
        spare[spare_count++] = &self_of(object);
    else
        PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"send", send, METH_O, "One step, with the hooks around it."},
    {"throw", throw_in, METH_VARARGS, "One step that begins with an exception."},
    {"close", close, METH_NOARGS, "Ends the coroutine, without hooks."},
    {nullptr, nullptr, 0, nullptr},
};

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(steps, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_doc, const_cast<char*>("A task's coroutine, with hooks around its steps.")},
    {Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(clear)},
    {Py_tp_repr, reinterpret_cast<void*>(represent)},
    {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
    {Py_am_await, reinterpret_cast<void*>(await)},
    {Py_am_send, reinterpret_cast<void*>(step)},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, nullptr},
};

PyType_Spec spec = {"ringloop._native.Steps", sizeof(steps), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                        Py_TPFLAGS_IMMUTABLETYPE,
                    slots};

steps* allocate() noexcept {
    if (spare_count == 0) return PyObject_GC_New(steps, steps_type);
    steps* made = spare[--spare_count];
    PyObject_Init(reinterpret_cast<PyObject*>(made), steps_type);
    return made;
}

}  // namespace

ref with_hooks(PyObject* coro) noexcept {
    if (Py_IS_TYPE(coro, steps_type)) return ref::share(coro);
    if (PyCoro_CheckExact(coro) == 0) {
        const ref answer = ref::steal(PyObject_CallOneArg(is_coroutine_function, coro));
        const int is_one = answer ? PyObject_IsTrue(answer.get()) : -1;
        if (is_one < 0) return {};
        if (is_one == 0) return ref::share(coro);  // the task's constructor refuses it
    }
    steps* made = allocate();
    if (made == nullptr) return {};
    made->inner = Py_NewRef(coro);
    made->task = made->weak_references = nullptr;
    made->begun = made->ended = made->told_ready = false;
    PyObject_GC_Track(made);
    return ref::steal(reinterpret_cast<PyObject*>(made));
}

int tell_created(PyObject* coro, PyObject* task, bool its_own) noexcept {
    if (!Py_IS_TYPE(coro, steps_type)) return 0;
    steps& self = self_of(coro);
    if (its_own && !self.ended) Py_XSETREF(self.task, Py_NewRef(task));
    // An eager task's came with its first step.
    return !on_ready || self.begun || self.told_ready ? 0 : tell_ready(self, task);
}

int add_step_types(PyObject* module) noexcept {
    const ref asyncio = ref::steal(PyImport_ImportModule("asyncio"));
    if (!asyncio) return -1;
    current_task_function = PyObject_GetAttrString(asyncio.get(), "current_task");
    is_coroutine_function = PyObject_GetAttrString(asyncio.get(), "iscoroutine");
    steps_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (current_task_function == nullptr || is_coroutine_function == nullptr ||
        steps_type == nullptr)
        return -1;
    const ref abc = ref::steal(PyImport_ImportModule("collections.abc"));
    const ref coroutine = abc ? ref::steal(PyObject_GetAttrString(abc.get(), "Coroutine")) : ref();
    const ref answer =
        coroutine ? ref::steal(PyObject_CallMethod(coroutine.get(), "register", "O",
                                                   reinterpret_cast<PyObject*>(steps_type)))
                  : ref();
    return answer ? add_step_hooks(module) : -1;
}

}  // namespace ringloop::python
