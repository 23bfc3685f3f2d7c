// The list of owners, the error of who comes second, and the module's functions about descriptors.
// Contract in owners.hpp.
#include "owners.hpp"

#include <new>

#include "datagram.hpp"
#include "loop_object.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/host.hpp"
#include "ringloop/detail/same_file.hpp"
#include "sockets.hpp"
#include "sockets_works.hpp"
#include "transport.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

PyObject* conflict_error = nullptr;  // FdConflictError

constexpr const char* conflict_doc =
    "A descriptor was taken that somebody has already.\n\n"
    "fd: its number. held_by: who has it. wanted_by: who asked for it.";

// Drops what was not set: the message has it all.
void note(PyObject* error, const char* name, PyObject* value) noexcept {
    if (value == nullptr || PyObject_SetAttrString(error, name, value) < 0) PyErr_Clear();
}

}  // namespace

void owner_list::add(int fd, const char* kind, PyObject* holder, PyObject* loop,
                     const char* state) noexcept {
    if (Py_REFCNT(holder) == 0 || (loop != nullptr && Py_REFCNT(loop) == 0)) return;
    try {
        entries_.push_back({fd, kind, ref::share(holder), ref::share(loop), state});
    } catch (const std::bad_alloc&) {
        complete_ = false;
    }
}

PyObject* owner_list::objects() const noexcept {
    if (!complete_) return PyErr_NoMemory();
    ref list = ref::steal(PyList_New(0));
    if (!list) return nullptr;
    for (const entry& e : entries_) {
        PyObject* loop = e.loop ? e.loop.get() : Py_None;
        const ref one =
            ref::steal(Py_BuildValue("(isOOs)", e.fd, e.kind, e.holder.get(), loop, e.state));
        if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
    }
    return list.release();
}

int raise_conflict(PyObject* fd, const char* kind, PyObject* holder,
                   const char* wanted_by) noexcept {
    const ref text = ref::steal(PyUnicode_FromFormat(
        "File descriptor %R is used by %s %R, and wanted by %s: whoever has it must give it up "
        "first (close it, or ringloop.detach())",
        fd, kind, holder, wanted_by));
    const ref error =
        text ? ref::steal(PyObject_CallFunctionObjArgs(conflict_error, text.get(), nullptr))
             : ref();
    if (!error) return -1;
    ref number =
        PyLong_Check(fd) ? ref::share(fd) : ref::steal(PyObject_CallMethod(fd, "fileno", nullptr));
    note(error.get(), "fd", number.get());
    note(error.get(), "held_by", ref::steal(PyUnicode_FromFormat("%s %R", kind, holder)).get());
    note(error.get(), "wanted_by", ref::steal(PyUnicode_FromString(wanted_by)).get());
    PyErr_SetObject(conflict_error, error.get());
    return -1;
}

int check_other_loops(loop_object* loop, int fd, const char* wanted_by) noexcept {
    if (first_of_loops() == loop && loop->state.next == nullptr) return 0;
    const auto index = static_cast<std::size_t>(fd);
    for (loop_object* l = first_of_loops(); l != nullptr; l = l->state.next) {
        const auto& table = l->state.transports;
        if (l == loop || index >= table.size() || table[index] == nullptr) continue;
        const ref number = ref::steal(PyLong_FromLong(fd));
        const char* const kind = "another loop's transport";
        return number ? raise_conflict(number.get(), kind, table[index], wanted_by) : -1;
    }
    return 0;
}

namespace {

PyObject* object(loop_object* loop) noexcept {
    return reinterpret_cast<PyObject*>(loop);
}

// What a native task waits for on a descriptor; null: nothing of that kind.
const char* wait_of(const operation& op) noexcept {
    switch (op.code) {
        case op_code::accept:
            return "accepts";
        case op_code::connect:
            return "connects";
        case op_code::receive:
        case op_code::receive_into:
        case op_code::read:
            return "reads";
        case op_code::send:
        case op_code::write:
            return "writes";
        case op_code::poll:
            return "waits";
        default:
            return nullptr;
    }
}

void list_ring(owner_list& found, const driver& io, PyObject* loop, const char* whose) noexcept {
    if (found.wants(io.pollable_fd())) found.add(io.pollable_fd(), "ring", loop, loop, whose);
}

void list_native_tasks(owner_list& found, const driver& io, PyObject* loop) noexcept {
    for (const operation* op = io.newest(); op != nullptr; op = op->next) {
        if (op->host || !found.wants(op->fd) || wait_of(*op) == nullptr) continue;
        found.add(op->fd, "native task", loop, loop, wait_of(*op));
    }
}

// In the thread of a loop that runs, native operations come and go without the GIL.
bool is_at_rest(loop_object* loop) noexcept {
    return !loop->state.running || loop->state.last_thread == PyThread_get_thread_ident();
}

void list_loops(owner_list& found) noexcept {
    for (loop_object* l = first_of_loops(); l != nullptr; l = l->state.next) {
        list_ring(found, io_of(l), object(l), "own");
        if (is_at_rest(l)) list_native_tasks(found, io_of(l), object(l));
        const auto& transports = l->state.transports;
        const owner_list::range places = found.of(transports.size());
        for (std::size_t fd = places.first; fd < places.end; ++fd) {
            PyObject* const transport = transports[fd];
            if (transport == nullptr) continue;
            if (is_transport(transport))
                list_transport(found, transport);
            else
                list_datagram_transport(found, transport);
        }
        l->state.watches.list_owners(found, object(l));
    }
}

// owners(fd): list of (fd, kind, holder, loop or None, state); of all descriptors if fd is -1.
PyObject* owners(PyObject*, PyObject* arguments) noexcept {
    int fd = -1;
    if (PyArg_ParseTuple(arguments, "i:owners", &fd) == 0) return nullptr;
    owner_list found(fd);
    list_loops(found);
    list_listeners(found);
    socket_work::list_owners(found);
    list_files(found);
    const auto add_guest = [](PyObject* loop, const driver& io, void* list) noexcept {
        list_ring(*static_cast<owner_list*>(list), io, loop, "guest");
        list_native_tasks(*static_cast<owner_list*>(list), io, loop);
    };
    bridge::each_guest(add_guest, &found);
    return found.objects();
}

// True, False, or None where the kernel does not tell.
PyObject* answer(int result) noexcept {
    if (result < 0) Py_RETURN_NONE;
    return PyBool_FromLong(result);
}

PyObject* same_file(PyObject*, PyObject* arguments) noexcept {
    int one = -1, other = -1;
    if (PyArg_ParseTuple(arguments, "ii:same_file", &one, &other) == 0) return nullptr;
    return answer(detail::same_file(one, other));
}

PyObject* same_as_epoll_entry(PyObject*, PyObject* arguments) noexcept {
    int fd = -1, epoll_fd = -1, entry = -1;
    unsigned nth = 0;
    if (PyArg_ParseTuple(arguments, "iiiI:same_as_epoll_entry", &fd, &epoll_fd, &entry, &nth) == 0)
        return nullptr;
    return answer(detail::same_as_epoll_entry(fd, epoll_fd, entry, nth));
}

// An awaitable, under any loop. It takes nothing from the socket.
PyObject* socket_ready(PyObject*, PyObject* arguments) noexcept {
    PyObject* socket = nullptr;
    int writing = 0;
    if (PyArg_ParseTuple(arguments, "Op:socket_ready", &socket, &writing) == 0) return nullptr;
    const ready_for what = writing != 0 ? ready_for::writing : ready_for::reading;
    return await_call(socket, what, nullptr, nullptr, 0);
}

PyMethodDef functions[] = {
    {"owners", owners, METH_VARARGS, "Who holds a descriptor; -1: all that are held."},
    {"same_file", same_file, METH_VARARGS,
     "Whether two descriptors are of one open file description."},
    {"same_as_epoll_entry", same_as_epoll_entry, METH_VARARGS,
     "Whether an epoll set's entry is the file of a descriptor."},
    {"socket_ready", socket_ready, METH_VARARGS, "Waits until a socket can be read or written."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_owner_functions(PyObject* module) noexcept {
    conflict_error = PyErr_NewExceptionWithDoc("ringloop.FdConflictError", conflict_doc,
                                               PyExc_RuntimeError, nullptr);
    if (conflict_error == nullptr) return -1;
    if (PyModule_AddObjectRef(module, "FdConflictError", conflict_error) < 0) return -1;
    return PyModule_AddFunctions(module, functions);
}

}  // namespace ringloop::python
