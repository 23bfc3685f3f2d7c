// LoopCore: type, life, hooks, reports. Contract in loop.hpp; the turn is in loop_run.cpp,
// scheduling in loop_calls.cpp.
//
// GIL held throughout.
#include "loop.hpp"

#include <malloc.h>

#include <climits>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#include "handled_scope.hpp"
#include "ledger.hpp"
#include "loop_object.hpp"
#include "owners.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/detail/processors.hpp"
#include "sockets.hpp"

namespace ringloop::python {

using bridge::ref;

PyTypeObject* loop_core_type = nullptr;

namespace {

loop_object* first_loop = nullptr;  // configured and not yet torn down

loop_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<loop_object*>(self);
}
PyObject* object(loop_object* loop) noexcept {
    return reinterpret_cast<PyObject*>(loop);
}

void link(loop_object* loop) noexcept {
    loop->state.next = first_loop;
    if (first_loop != nullptr) first_loop->state.previous = loop;
    first_loop = loop;
}

void unlink(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    if (state.previous != nullptr) state.previous->state.next = state.next;
    if (state.next != nullptr) state.next->state.previous = state.previous;
    if (first_loop == loop) first_loop = state.next;
    state.previous = state.next = nullptr;
}

long count_loops() noexcept {
    long count = 0;
    for (loop_object* l = first_loop; l != nullptr; l = l->state.next) ++count;
    return count;
}
long count_operations() noexcept {
    long count = 0;
    for (loop_object* l = first_loop; l != nullptr; l = l->state.next)
        count += static_cast<long>(io_of(l).in_flight());
    return count;
}
long count_buffers() noexcept {
    long count = 0;
    for (loop_object* l = first_loop; l != nullptr; l = l->state.next)
        count += static_cast<long>(io_of(l).leased_buffers());
    return count;
}

PyObject* loop_new(PyTypeObject* type, PyObject*, PyObject*) noexcept {
    auto* self = reinterpret_cast<loop_object*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->closed = 1;  // until _configure(): what checks for closed loops refuses this one, too
    try {
        new (&self->state) loop_state();
    } catch (const std::bad_alloc&) {
        // Not constructed: dealloc must not destroy it.
        PyObject_GC_UnTrack(self);
        type->tp_free(self);
        Py_DECREF(type);
        return PyErr_NoMemory();
    }
    return object(self);
}

void loop_dealloc(PyObject* self) noexcept {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    loop_tear_down(cast(self));
    Py_CLEAR(cast(self)->task_factory);
    cast(self)->state.~loop_state();
    type->tp_free(self);
    Py_DECREF(type);
}

// ---- configuration

bool read_unsigned(PyObject* options, const char* key, unsigned& out) noexcept {
    PyObject* value = PyDict_GetItemString(options, key);
    if (value == nullptr) return true;
    if (!PyLong_Check(value)) {
        PyErr_Format(PyExc_TypeError, "%s must be an int, not %R", key, value);
        return false;
    }
    const unsigned long number = PyLong_AsUnsignedLong(value);
    if (PyErr_Occurred() == nullptr && number <= UINT_MAX) {
        out = static_cast<unsigned>(number);
        return true;
    }
    PyErr_Format(PyExc_ValueError, "%s is %R: take a number from 0 to %u", key, value, UINT_MAX);
    return false;
}

bool read_masked(PyObject* options, std::vector<unsigned>& out) {
    PyObject* value = PyDict_GetItemString(options, "masked_opcodes");
    if (value == nullptr) return true;
    ref list = ref::steal(PySequence_List(value));
    if (!list) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
        const unsigned long number = PyLong_AsUnsignedLong(PyList_GET_ITEM(list.get(), i));
        if (number == static_cast<unsigned long>(-1) && PyErr_Occurred()) return false;
        out.push_back(static_cast<unsigned>(number));
    }
    return true;
}

bool read_config(PyObject* options, driver_config& config) {
    if (PyObject* word = PyDict_GetItemString(options, "backend")) {
        const char* text = PyUnicode_AsUTF8(word);
        if (text == nullptr) return false;
        config.choice = parse_backend(text);
    }
    return read_masked(options, config.masked_opcodes) &&
           read_unsigned(options, "submission_entries", config.submission_entries) &&
           read_unsigned(options, "completion_entries", config.completion_entries) &&
           read_unsigned(options, "buffer_count", config.buffer_count) &&
           read_unsigned(options, "buffer_size", config.buffer_size);
}

// For tests: a driver made elsewhere, in a capsule that is emptied. Null with an exception set.
std::unique_ptr<scheduler> scheduler_over(PyObject* capsule) {
    auto* holder =
        static_cast<std::unique_ptr<driver>*>(PyCapsule_GetPointer(capsule, "ringloop.driver"));
    if (holder == nullptr) return nullptr;
    if (*holder == nullptr) throw std::invalid_argument("this driver belongs to another loop");
    return std::make_unique<scheduler>(std::move(*holder));
}

// Without these, sends that are queued for a turn and freed together make the heap's top trim and
// fault at each turn.
PyObject* tune_malloc(PyObject*, PyObject*) noexcept {
    constexpr int keep_bytes = 64 << 20;
    mallopt(M_TRIM_THRESHOLD, keep_bytes);
    mallopt(M_TOP_PAD, 1 << 20);
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    Py_RETURN_NONE;
}

PyObject* configure(PyObject* self, PyObject* options) noexcept {
    loop_object* loop = cast(self);
    if (loop->state.native || loop->state.initialised) {
        PyErr_SetString(PyExc_RuntimeError, "this loop was initialised already");
        return nullptr;
    }
    if (!PyDict_Check(options)) return PyErr_Format(PyExc_TypeError, "options must be a dict");
    try {
        if (PyObject* given = PyDict_GetItemString(options, "driver")) {
            loop->state.native = scheduler_over(given);
            if (!loop->state.native) return nullptr;
        } else {
            driver_config config;
            if (!read_config(options, config)) return nullptr;
            loop->state.native = std::make_unique<scheduler>(config);
        }
        loop->state.host = std::make_unique<own_host>(loop, loop->state.native.get());
    } catch (...) {
        bridge::raise_from(std::current_exception());
        return nullptr;
    }
    loop_look_at_time(loop);
    PyObject* clock = PyDict_GetItemString(options, "clock");
    if (clock != nullptr && clock != Py_None && loop_set_clock(loop, clock) < 0) return nullptr;
    loop->state.initialised = true;
    loop->closed = 0;
    link(loop);
    Py_RETURN_NONE;
}

PyObject* shut_down(PyObject* self, PyObject*) noexcept {
    if (cast(self)->state.running) {
        PyErr_SetString(PyExc_RuntimeError, "Cannot close a running event loop");
        return nullptr;
    }
    loop_tear_down(cast(self));
    Py_RETURN_NONE;
}

PyObject* wake(PyObject* self, PyObject*) noexcept {
    if (cast(self)->state.native) io_of(cast(self)).wake();
    Py_RETURN_NONE;
}

bool put(PyObject* dict, const char* key, PyObject* value) noexcept {
    ref owned = ref::steal(value);
    return owned && PyDict_SetItemString(dict, key, owned.get()) == 0;
}

PyObject* strings(const std::vector<std::string>& values) noexcept {
    ref list = ref::steal(PyList_New(0));
    for (const std::string& value : values) {
        ref text = ref::steal(PyUnicode_FromString(value.c_str()));
        if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
    }
    return list.release();
}

PyObject* describe(const ringloop::capabilities& what) noexcept {
    ref dict = ref::steal(PyDict_New());
    if (!dict || !put(dict.get(), "backend", PyUnicode_FromString(name(what.chosen))) ||
        !put(dict.get(), "reason", PyUnicode_FromString(what.reason.c_str())) ||
        !put(dict.get(), "kernel", PyUnicode_FromString(what.kernel.c_str())) ||
        !put(dict.get(), "submission_entries", PyLong_FromUnsignedLong(what.submission_entries)) ||
        !put(dict.get(), "completion_entries", PyLong_FromUnsignedLong(what.completion_entries)) ||
        !put(dict.get(), "buffer_count", PyLong_FromUnsignedLong(what.buffer_count)) ||
        !put(dict.get(), "buffer_size", PyLong_FromUnsignedLong(what.buffer_size)) ||
        !put(dict.get(), "missing_opcodes", strings(what.missing_opcodes)))
        return nullptr;
    return dict.release();
}

PyObject* loop_capabilities(PyObject* self, PyObject*) noexcept {
    if (!cast(self)->state.native) return raise_closed(cast(self)), nullptr;
    return describe(io_of(cast(self)).what());
}

PyObject* loop_counters(PyObject* self, PyObject*) noexcept {
    if (!cast(self)->state.native) return raise_closed(cast(self)), nullptr;
    const driver& io = io_of(cast(self));
    const driver_counters& c = io.counters();
    return Py_BuildValue("{sKsKsKsKsKsKsKsKsnsn}", "submitted", c.submitted, "completions",
                         c.completions, "enters", c.enters, "sleeps", c.sleeps, "wake_writes",
                         c.wake_writes, "overflows", c.overflows, "starved", c.starved, "stale",
                         c.stale, "in_flight", static_cast<Py_ssize_t>(io.in_flight()),
                         "leased_buffers", static_cast<Py_ssize_t>(io.leased_buffers()));
}

PyObject* after_fork_in_child(PyObject*, PyObject*) noexcept {
    socket_work::forget_all_after_fork();
    while (first_loop != nullptr) {
        loop_object* loop = first_loop;
        unlink(loop);
        loop->state.forked = true;
        loop->closed = 1;
        loop->state.host->forget_after_fork();
        native_of(loop).abandon_after_fork();
    }
    Py_RETURN_NONE;
}

PyMethodDef life_methods[] = {
    {"_configure", configure, METH_O, "Makes the driver from a dict of options."},
    {"_run", loop_run, METH_NOARGS, "Turns until _stopping is set."},
    {"_shut_down", shut_down, METH_NOARGS, "Ends everything in flight and frees the driver."},
    {"_write_to_self", wake, METH_NOARGS, "Wakes the loop, from any thread."},
    {"_capabilities", loop_capabilities, METH_NOARGS, "What the driver is, as a dict."},
    {"_counters", loop_counters, METH_NOARGS, "What the driver did, as a dict."},
    {nullptr, nullptr, 0, nullptr}};

// Programs put a time() of their own on a loop, tests above all.
int set_attribute(PyObject* self, PyObject* name, PyObject* value) noexcept {
    if (PyObject_GenericSetAttr(self, name, value) < 0) return -1;
    if (PyUnicode_CompareWithASCIIString(name, "time") == 0) loop_look_at_time(cast(self));
    return 0;
}

PyObject* get_closed(PyObject* self, void*) noexcept {
    return PyBool_FromLong(cast(self)->closed);
}

// BaseEventLoop.__init__() sets it to False. Without a driver it stays what it is.
int set_closed(PyObject* self, PyObject* value, void*) noexcept {
    const int closed = value != nullptr ? PyObject_IsTrue(value) : 1;
    if (closed < 0) return -1;
    if (closed == 0 && (!cast(self)->state.native || cast(self)->state.forked))
        return raise_closed(cast(self));
    cast(self)->closed = static_cast<char>(closed);
    return 0;
}

PyObject* get_forked(PyObject* self, void*) noexcept {
    return PyBool_FromLong(cast(self)->state.forked);
}

// _stall_limit_ns: 0: spans are not measured.
PyObject* get_stall_limit(PyObject* self, void*) noexcept {
    return PyLong_FromLongLong(cast(self)->state.stalls.limit_ns());
}

int set_stall_limit(PyObject* self, PyObject* value, void*) noexcept {
    const long long limit_ns = value != nullptr ? PyLong_AsLongLong(value) : 0;
    if (limit_ns == -1 && PyErr_Occurred() != nullptr) return -1;
    cast(self)->state.stalls.set_limit(limit_ns);
    return 0;
}

PyGetSetDef properties[] = {{"_closed", get_closed, set_closed, nullptr, nullptr},
                            {"_is_parents", get_forked, nullptr, nullptr, nullptr},
                            {"_stall_limit_ns", get_stall_limit, set_stall_limit, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"_stopping", T_BOOL, offsetof(loop_members, stopping), 0, nullptr},
    {"_debug", T_BOOL, offsetof(loop_members, debug), 0, nullptr},
    {"_task_factory", T_OBJECT, offsetof(loop_members, task_factory), 0, nullptr},
    {"_busy_elsewhere", T_PYSSIZET, offsetof(loop_members, busy_elsewhere), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

std::vector<PyMethodDef>& all_methods() {
    static std::vector<PyMethodDef> methods = [] {
        std::vector<PyMethodDef> all;
        for (PyMethodDef* table :
             {life_methods, loop_call_methods, loop_task_methods, loop_watch_methods})
            for (; table->ml_name != nullptr; ++table) all.push_back(*table);
        all.push_back({nullptr, nullptr, 0, nullptr});
        return all;
    }();
    return methods;
}

// Those whose memory ends with Python objects. The others belong to coroutines that were left.
void retire_host_operations(driver& io) noexcept {
    const auto first = [&io]() noexcept {
        operation* each = io.newest();
        while (each != nullptr && !each->host) each = each->next;
        return each;
    };
    while (operation* each = first()) io.retire(*each);
}

bridge::loop_host* host_if_own(PyObject* object) noexcept {
    return is_loop(object) ? cast(object)->state.host.get() : nullptr;
}

// check_thread(loop, what), for transports in Python
PyObject* check_thread_of(PyObject*, PyObject* const* arguments, Py_ssize_t count) noexcept {
    const bool good = count == 2 && is_loop(arguments[0]);
    const char* what = good ? PyUnicode_AsUTF8(arguments[1]) : nullptr;
    if (!good) PyErr_SetString(PyExc_TypeError, "check_thread(loop, what)");
    if (what == nullptr || check_thread(cast(arguments[0]), what) < 0) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef module_functions[] = {
    {"check_thread", bridge::method(check_thread_of), METH_FASTCALL,
     "In debug mode: AffinityError where the loop runs in another thread."},
    {"ledger", ledger_dict, METH_NOARGS,
     "Live counts of everything that a test must leave at zero."},
    {"_after_fork_in_child", after_fork_in_child, METH_NOARGS, nullptr},
    {"_tune_malloc", tune_malloc, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

// ---- what the other files use (loop.hpp, loop_object.hpp)

scheduler& native_of(loop_object* loop) noexcept {
    return *loop->state.native;
}
bridge::loop_host& host_of_loop(loop_object* loop) noexcept {
    return *loop->state.host;
}
bool loop_is_closed(loop_object* loop) noexcept {
    return loop->closed != 0;
}
bool loop_is_forked(loop_object* loop) noexcept {
    return loop->state.forked;
}
loop_object* first_of_loops() noexcept {
    return first_loop;
}
turn_traffic& traffic_of(loop_object* loop) noexcept {
    return loop->state.traffic;
}
bool loop_debug(loop_object* loop) noexcept {
    return loop->debug != 0;
}

void loop_tear_down(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    loop->closed = 1;
    if (!state.native) return;
    if (!state.forked) run_turn_end_hooks(loop);
    state.watches.clear(loop, !state.forked);
    loop_clear_queues(loop);
    if (!state.forked) {
        state.host->end_all();
        socket_place::forget_all(state.host.get());
        state.native->io().flush();
        if (state.host->left_behind()) {
            retire_host_operations(state.native->io());
        } else {
            state.native->io().retire_all();
            // More than once: posts may wait behind those that the last turn left over.
            while (state.native->has_host_work()) state.native->run_host();
        }
        loop_clear_queues(loop);
    }
    unlink(loop);
    // Threads still come back to both; or what was in flight is the parent's, and points here.
    if (state.host->left_behind() || state.forked) {
        static_cast<void>(state.host.release());
        static_cast<void>(state.native.release());
    }
    state.host.reset();
    if (state.native) scheduler::end(std::move(state.native));
}

int raise_closed(loop_object* loop) noexcept {
    const char* why = "Event loop is closed";
    if (loop->state.forked) {
        why =
            "Event loop is closed: it belongs to the parent of this forked process; make a new one "
            "here with ringloop.new_event_loop()";
    } else if (!loop->state.initialised) {
        why =
            "EventLoop.__init__() has not run: a subclass's __init__() must call "
            "super().__init__() before it uses the loop";
    }
    PyErr_SetString(PyExc_RuntimeError, why);
    return -1;
}

int check_thread(loop_object* loop, const char* what) noexcept {
    const loop_state& state = loop->state;
    const unsigned long here = PyThread_get_thread_ident();
    if (!loop->debug || !state.running || state.last_thread == here) return 0;
    PyErr_Format(bridge::affinity_error(),
                 "Non-thread-safe operation invoked on an event loop other than the current one: "
                 "%s in thread %lu, the loop runs in thread %lu; loop.call_soon_threadsafe() "
                 "brings a call there",
                 what, here, state.last_thread);
    return -1;
}

int check_debug(loop_object* loop, PyObject* callback, const char* name, bool thread) noexcept {
    if (!loop->debug) return 0;
    if (thread && check_thread(loop, name) < 0) return -1;
    ref done =
        ref::steal(PyObject_CallMethod(object(loop), "_check_callback", "Os", callback, name));
    return done ? 0 : -1;
}

int loop_set_traceback(handle_object* handle) noexcept {
    ref module = ref::steal(PyImport_ImportModule("ringloop._handles"));
    if (!module) return -1;
    handle->traceback = PyObject_CallMethod(module.get(), "source_traceback", nullptr);
    return handle->traceback != nullptr ? 0 : -1;
}

int loop_run_debug(loop_object* loop, handle_object* handle) noexcept {
    ref done = ref::steal(PyObject_CallMethod(object(loop), "_run_handle_debug", "O", handle));
    return done ? 0 : -1;
}

void loop_clear_queues(loop_object* loop) noexcept {
    loop_state& state = loop->state;
    while (!state.endings.empty()) {
        handle_object* handle = state.endings.back();
        state.endings.pop_back();
        handle_drop(handle);
        Py_DECREF(handle);
    }
    while (!state.ready.empty()) {
        handle_object* handle = state.ready.pop();
        handle_drop(handle);
        Py_DECREF(handle);
    }
    while (!state.timers.empty()) {
        handle_object* handle = state.timers.pop();
        handle_drop(handle);
        Py_DECREF(handle);
    }
}

void loop_at_turn_end(loop_object* loop, turn_end_hook& hook) noexcept {
    if (hook.queued) return;
    hook.queued = true;
    hook.next = nullptr;
    loop_state& state = loop->state;
    (state.hooks_last != nullptr ? state.hooks_last->next : state.hooks_first) = &hook;
    state.hooks_last = &hook;
}

void loop_cancel_turn_end(loop_object* loop, turn_end_hook& hook) noexcept {
    if (!hook.queued) return;
    loop_state& state = loop->state;
    turn_end_hook* previous = nullptr;
    for (turn_end_hook* h = state.hooks_first; h != &hook; h = h->next) previous = h;
    (previous != nullptr ? previous->next : state.hooks_first) = hook.next;
    if (state.hooks_last == &hook) state.hooks_last = previous;
    hook.queued = false;
    hook.next = nullptr;
}

bool loop_take_fatal(loop_object* loop) noexcept {
    if (!PyErr_ExceptionMatches(PyExc_SystemExit) &&
        !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        return false;
    ref exception = bridge::take_exception();
    if (!loop->state.fatal) loop->state.fatal = std::move(exception);
    return true;
}

void loop_report(loop_object* loop, const char* message, const char* key,
                 PyObject* value) noexcept {
    ref exception = bridge::take_exception();
    ref context = ref::steal(PyDict_New());
    bool complete = context && put(context.get(), "message", PyUnicode_FromString(message));
    if (complete && exception)
        complete = PyDict_SetItemString(context.get(), "exception", exception.get()) == 0;
    if (complete && key != nullptr) complete = PyDict_SetItemString(context.get(), key, value) == 0;
    ref done;
    if (complete) {
        const handled_scope handled(exception.get());
        done = ref::steal(
            PyObject_CallMethod(object(loop), "call_exception_handler", "O", context.get()));
    }
    if (!done && !loop_take_fatal(loop)) PyErr_WriteUnraisable(object(loop));
}

int loop_claim_fd(loop_object* loop, int fd, PyObject* transport) noexcept {
    auto& table = loop->state.transports;
    const auto index = static_cast<std::size_t>(fd);
    if (index < table.size() && table[index] != nullptr) {
        const ref number = ref::steal(PyLong_FromLong(fd));
        return number ? raise_conflict(number.get(), "transport", table[index], "a new transport")
                      : -1;
    }
    try {
        if (index >= table.size()) table.resize(index * 2 + 16);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return -1;
    }
    table[index] = transport;
    return 0;
}

void loop_release_fd(loop_object* loop, int fd) noexcept {
    auto& table = loop->state.transports;
    if (fd >= 0 && static_cast<std::size_t>(fd) < table.size())
        table[static_cast<std::size_t>(fd)] = nullptr;
}

int add_loop_types(PyObject* module) noexcept {
    static PyType_Slot slots[] = {{Py_tp_new, slot(loop_new)},
                                  {Py_tp_dealloc, slot(loop_dealloc)},
                                  {Py_tp_traverse, slot(loop_traverse)},
                                  {Py_tp_clear, slot(loop_clear)},
                                  {Py_tp_methods, all_methods().data()},
                                  {Py_tp_members, members},
                                  {Py_tp_getset, properties},
                                  {Py_tp_setattro, slot(set_attribute)},
                                  {0, nullptr}};
    static PyType_Spec spec = {"ringloop._native.LoopCore", sizeof(loop_object), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                               slots};
    ledger_add("loops", &count_loops);
    ledger_add("operations", &count_operations);
    ledger_add("buffers", &count_buffers);
    if (add_handle_types(module) < 0) return -1;
    loop_core_type =
        reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (loop_core_type == nullptr) return -1;
    bridge::set_own_loops(&host_if_own);
    if (PyModule_AddFunctions(module, module_functions) < 0) return -1;
    return PyModule_AddObjectRef(module, "LoopCore", reinterpret_cast<PyObject*>(loop_core_type));
}

}  // namespace ringloop::python
