// Guests: native work under a loop that is not ringloop's (stock asyncio, uvloop). A guest is a
// scheduler of its own on that loop's thread; the foreign loop polls its ring by one add_reader.
//
// Who keeps whom: the loop's reader keeps the guest object; the guest keeps the awaitables in
// flight, and those the loop. So a guest ends when the loop drops its readers: in loop.close(), or
// when the collector finds the loop. Nothing global owns one.
//
// Thread: the foreign loop's, GIL held.
#include <pthread.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <unordered_map>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "table.hpp"

namespace ringloop::bridge {
namespace {

constexpr unsigned rounds_max = 16;    // of one turn, before the foreign loop gets its thread back
constexpr unsigned at_once_max = 8;    // completions in a row delivered at their submit
constexpr unsigned pool_buffers = 16;  // 64 KiB each, touched when used

PyTypeObject* guest_type = nullptr;
PyObject* call_soon_names = nullptr;  // ("context",)
PyObject* call_soon_name = nullptr;
loop_host* (*host_if_own)(PyObject*) noexcept = nullptr;

class guest final : public loop_host {
  public:
    guest(PyObject* loop, std::unique_ptr<scheduler> native, PyObject* object) noexcept
        : loop_host(loop, native.get()), scheduler_(std::move(native)), object_(object) {}

    ~guest() override { scheduler::end(std::move(scheduler_)); }

    int call_soon(PyObject* callback, PyObject* argument, PyObject* context) noexcept override;
    void submitted() noexcept override;
    [[nodiscard]] bool runs_callbacks() const noexcept override {
        return !ended() || is_parents();  // the foreign loop goes on in a forked child
    }
    // Delivers what is there and announces the sleep in the foreign poller.
    void turn() noexcept;
    // The foreign loop called: its other work has had its share of the thread.
    void called() noexcept {
        thread = PyThread_get_thread_ident();
        at_once_ = 0;
        timer_ns_ = no_deadline;
    }
    [[nodiscard]] PyObject* alive_loop() const noexcept;
    // Ends all that is in flight and deletes the guest, unless threads still come back to it or it
    // is that of this process's parent.
    void end() noexcept;

    PyObject* weak_loop = nullptr;

  private:
    [[nodiscard]] bool has_work() const noexcept {
        return scheduler_->has_native_work() || scheduler_->has_host_work();
    }
    [[nodiscard]] bool park() noexcept;
    void call_again() noexcept;
    void arm_timer() noexcept;

    std::unique_ptr<scheduler> scheduler_;
    PyObject* object_;  // borrowed: the Python object that owns this
    bool inside_ = false;
    bool submitted_inside_ = false;
    unsigned at_once_ = 0;
    std::int64_t timer_ns_ = no_deadline;
};

struct guest_object {
    PyObject ob_base;
    guest* host;
    PyObject* weak_references;
};

struct registry {
    std::unordered_map<PyObject*, guest*> guests;  // by the loop's address, checked by weak_loop
    PyObject* cached_loop = nullptr;
    guest* cached = nullptr;
};
registry& known() noexcept {
    static registry all;
    return all;
}

guest*& host_in(PyObject* object) noexcept {
    return reinterpret_cast<guest_object*>(object)->host;
}

// ---- the host

void guest::end() noexcept {
    end_all();
    if (left_behind() || is_parents()) return;  // what was in flight still points here
    while (native().has_host_work()) native().run_host();  // accepted posts (capi.h)
    delete this;
}

int guest::call_soon(PyObject* callback, PyObject* argument, PyObject* context) noexcept {
    PyObject* args[] = {loop_, callback, argument, context};
    const ref handle = ref::steal(PyObject_VectorcallMethod(
        call_soon_name, args, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, call_soon_names));
    return handle ? 0 : -1;
}

bool guest::park() noexcept {
    wait_request request;
    request.has_work = [](void* self) noexcept { return static_cast<guest*>(self)->has_work(); };
    request.context = this;
    return native().io().park(request);
}

void guest::turn() noexcept {
    if (inside_) return;
    inside_ = true;
    unsigned round = 0;
    do {
        submitted_inside_ = false;
        native().io().unpark();
        native().poll();
        native().run_native();
        native().run_host();
    } while (!ended() && ++round < rounds_max && (submitted_inside_ || has_work() || !park()));
    inside_ = false;
    if (ended()) return;
    if (round == rounds_max) {
        native().io().flush();
        if (has_work() || !park()) call_again();
    }
    arm_timer();
}

// What completes inside its own submit (a cached file, a ready socket) needs no trip through the
// foreign poller; but a task that never suspends would starve the others.
void guest::submitted() noexcept {
    if (ended()) return;  // end_all() waits for each by itself; the foreign loop may be closed
    if (inside_) {
        submitted_inside_ = true;  // the turn under way takes it along before it ends
        return;
    }
    if (++at_once_ <= at_once_max) {
        turn();
    } else {
        native().io().flush();
        if (has_work()) call_again();
        arm_timer();  // of what was just begun: no turn will look at it before
    }
}

// A wake-up by hand, for work that left the ring and so no longer shows in its descriptor.
void guest::call_again() noexcept {
    const ref context = ref::steal(PyContext_New());
    if (!context || call_soon(object_, Py_None, context.get()) < 0) PyErr_WriteUnraisable(object_);
}

void guest::arm_timer() noexcept {
    const std::int64_t deadline_ns = native().next_deadline_ns();
    if (deadline_ns == no_deadline || deadline_ns >= timer_ns_) return;
    timer_ns_ = deadline_ns;
    const double delay = static_cast<double>(deadline_ns - native().now_ns()) * 1e-9;
    const ref handle = ref::steal(
        PyObject_CallMethod(loop_, "call_later", "dO", delay > 0 ? delay : 0.0, object_));
    if (!handle) PyErr_WriteUnraisable(object_);
}

PyObject* guest::alive_loop() const noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject* loop = nullptr;
    if (PyWeakref_GetRef(weak_loop, &loop) <= 0) return nullptr;
    Py_DECREF(loop);  // its caller holds one
    return loop;
#else
    return PyWeakref_GetObject(weak_loop);
#endif
}

// ---- the Python object around it: the reader's callback

PyObject* guest_call(PyObject* object, PyObject* /*args*/, PyObject* /*names*/) {
    guest* host = host_in(object);
    if (host != nullptr && !host->ended()) {
        host->called();
        host->turn();
    }
    Py_RETURN_NONE;
}

int guest_traverse(PyObject* object, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(object));
    guest* host = host_in(object);
    return host != nullptr ? host->traverse(visit, arg) : 0;
}

// The end of a guest: nothing of it may be found, called or kept by others from here on.
void end_guest(guest* host) noexcept {
    registry& all = known();
    for (auto at = all.guests.begin(); at != all.guests.end();)
        at = at->second == host ? all.guests.erase(at) : std::next(at);
    if (all.cached == host) {
        all.cached = nullptr;
        all.cached_loop = nullptr;
    }
    Py_CLEAR(host->weak_loop);
    host->end();
}

int guest_clear(PyObject* object) {
    if (guest* host = std::exchange(host_in(object), nullptr); host != nullptr) end_guest(host);
    return 0;
}

void guest_deallocate(PyObject* object) {
    PyTypeObject* const type = Py_TYPE(object);
    PyObject_GC_UnTrack(object);
    const ref saved = take_exception();
    guest_clear(object);
    if (saved) restore_exception(ref::share(saved.get()));
    PyObject_GC_Del(object);
    Py_DECREF(type);
}

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(guest_deallocate)},
    {Py_tp_traverse, reinterpret_cast<void*>(guest_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(guest_clear)},
    {Py_tp_call, reinterpret_cast<void*>(guest_call)},
    {0, nullptr},
};
PyType_Spec spec = {"ringloop._native.Guest", sizeof(guest_object), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// ---- making one

driver_config guest_config() {
    driver_config config;
    config.submission_entries = 128;
    config.completion_entries = 1024;
    config.buffer_count = pool_buffers;
    if (const char* word = std::getenv("RINGLOOP_BACKEND"); word != nullptr && *word != '\0')
        config.choice = parse_backend(word);
    return config;
}

void forget_guests_after_fork() {
    registry& all = known();
    for (auto& [loop, host] : all.guests) {
        host->forget_after_fork();
        host->native().abandon_to_poller_after_fork();  // or libuv aborts: it polls the ring still
    }
    all.cached_loop = nullptr;
    all.cached = nullptr;
}

bool add_reader(PyObject* loop, guest& host, PyObject* object) noexcept {
    const ref answer = ref::steal(
        PyObject_CallMethod(loop, "add_reader", "iO", host.native().io().pollable_fd(), object));
    return static_cast<bool>(answer);
}

loop_host* make_guest(PyObject* loop) noexcept {
    // Reached by objects of the main interpreter's: CPython gives a module that cannot be
    // initialised twice to subinterpreters as a copy.
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "ringloop's awaitables run in the main interpreter only: await them there");
        return nullptr;
    }
    std::unique_ptr<scheduler> native;
    try {
        native = std::make_unique<scheduler>(guest_config());
    } catch (...) {
        raise_from(std::current_exception());
        return nullptr;
    }
    ref weak = ref::steal(PyWeakref_NewRef(loop, nullptr));
    if (!weak) return nullptr;
    auto* object = PyObject_GC_New(guest_object, guest_type);
    if (object == nullptr) return nullptr;
    const ref owner = ref::steal(&object->ob_base);
    object->host = new (std::nothrow) guest(loop, std::move(native), &object->ob_base);
    if (object->host == nullptr) {
        PyErr_NoMemory();
        return nullptr;
    }
    guest& host = *object->host;
    host.weak_loop = weak.release();
    PyObject_GC_Track(&object->ob_base);
    if (!add_reader(loop, host, &object->ob_base)) return nullptr;
    static const int at_fork = pthread_atfork(nullptr, nullptr, &forget_guests_after_fork);
    static_cast<void>(at_fork);
    known().guests[loop] = &host;
    host.turn();
    return &host;
}

}  // namespace

int add_guest_types() noexcept {
    call_soon_name = PyUnicode_InternFromString("call_soon");
    call_soon_names = Py_BuildValue("(s)", "context");
    guest_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    return call_soon_name != nullptr && call_soon_names != nullptr && guest_type != nullptr ? 0
                                                                                            : -1;
}

void set_own_loops(loop_host* (*asked)(PyObject* loop) noexcept) noexcept {
    host_if_own = asked;
}

void each_guest(void (*visit)(PyObject*, const driver&, void*) noexcept, void* context) noexcept {
    for (auto& [loop, host] : known().guests)
        if (host->alive_loop() == loop) visit(loop, host->native().io(), context);
}

loop_host* host_of(PyObject* loop) noexcept {
    if (host_if_own != nullptr)
        if (loop_host* own = host_if_own(loop); own != nullptr) return own;
    registry& all = known();
    if (all.cached_loop == loop && all.cached->alive_loop() == loop) return all.cached;
    const auto found = all.guests.find(loop);
    loop_host* host = nullptr;
    if (found != all.guests.end() && found->second->alive_loop() == loop)
        host = found->second;
    else
        host = make_guest(loop);
    if (host == nullptr) return nullptr;
    all.cached_loop = loop;
    all.cached = static_cast<guest*>(host);
    return host;
}

}  // namespace ringloop::bridge
