// File, the native half of ringloop.open()'s object, and the life that all work on a file shares:
// turn, count, hand on. Contract and rules in files.hpp. Thread: the loop's, GIL held.
#include "files.hpp"

#include <structmember.h>

#include <cassert>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "files_close.hpp"
#include "ledger.hpp"
#include "loop.hpp"
#include "owners.hpp"
#include "probe.hpp"
#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/shared_handles.hpp"

namespace ringloop::python {

using bridge::ref;

PyTypeObject* file_type = nullptr;
long files_live = 0;

// ---- work on a file

file_work::file_work(file_object* on, bool at_position) noexcept
    : file(on), sequential(at_position) {
    Py_INCREF(file->object());
}

file_work::~file_work() {
    Py_DECREF(file->object());
}

void file_work::start(bridge::loop_host& host, bridge::awaitable& owner) noexcept {
    bind(host, owner);
    ++file->users;
    if (file->closing) {
        fail(-EBADF);
    } else if (sequential && file->current != nullptr) {
        waiting_ = true;
        (file->last_waiting != nullptr ? file->last_waiting->next_ : file->first_waiting) = this;
        file->last_waiting = this;
    } else {
        if (sequential) file->current = this;
        begin();
    }
}

// True if it had not begun: it ends at once.
bool file_work::leave_queue() noexcept {
    if (!waiting_) return false;
    waiting_ = false;
    file_work** link = &file->first_waiting;
    file_work* before = nullptr;
    while (*link != this) {
        before = *link;
        link = &before->next_;
    }
    *link = next_;
    if (file->last_waiting == this) file->last_waiting = before;
    return true;
}

void file_work::request_cancel() noexcept {
    cancelling = true;
    if (leave_queue()) {
        end();
        return;
    }
    operation_source::request_cancel();
}

void file_work::collect() noexcept {
    cancelling = true;
    if (leave_queue()) {
        end();
        return;
    }
    operation_source::collect();
}

void file_work::submit_counted() noexcept {
    ++host().files_in_flight;
    submit();
}

void file_work::completed(const completion& done) noexcept {
    --host().files_in_flight;
    host().files_in_place = 0;
    proceed(done.result);
}

bool file_work::may_try_in_place() noexcept {
    return python::may_try_in_place(host());
}

void file_work::fail(long result) noexcept {
    error = static_cast<int>(result < 0 ? -result : result);
    end();
}

void file_work::end() noexcept {
    settle();
    file_object* const on = file;
    const ref keep = ref::share(on->object());
    file_work* next = nullptr;
    if (on->current == this) {
        next = on->first_waiting;
        on->current = next;
        if (next != nullptr) {
            on->first_waiting = next->next_;
            if (on->first_waiting == nullptr) on->last_waiting = nullptr;
            next->next_ = nullptr;
            next->waiting_ = false;
        }
    }
    --on->users;
    driver& on_io = io();
    owner().finish();
    if (next != nullptr) next->begin();
    if (on->users > 0) return;
    if (on->closer != nullptr) {
        std::exchange(on->closer, nullptr)->begin();
    } else if (on->closing && on->fd >= 0) {  // whoever awaited its close has left
        --files_live;
        (void)on_io.close(std::exchange(on->fd, -1));
    }
}

bool file_work::raise_error() noexcept {
    if (error == 0) return false;
    if (error == EBADF && file->closing)
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file");
    else
        bridge::raise_errno(error, file->name);
    return true;
}

bool needs_ring(long result) noexcept {
    return result == -EAGAIN || result == -EOPNOTSUPP || result == -EINVAL || result == -ENOSYS ||
           result == -EINTR;
}

// ---- the type

PyObject* os_close = nullptr;

namespace {

PyObject* unsupported_operation = nullptr;  // io.UnsupportedOperation
file_object* first_file = nullptr;          // the latest

file_object* cast(PyObject* object) noexcept {
    return reinterpret_cast<file_object*>(object);
}

void deallocate(PyObject* object) {
    file_object* self = cast(object);
    PyTypeObject* const type = Py_TYPE(object);
    (self->previous != nullptr ? self->previous->next : first_file) = self->next;
    if (self->next != nullptr) self->next->previous = self->previous;
    const ref saved = bridge::take_exception();
    if (self->fd >= 0) {
        if (!self->closing &&
            PyErr_WarnFormat(PyExc_ResourceWarning, 1, "unclosed file %R", self->name) < 0)
            PyErr_WriteUnraisable(nullptr);
        close_descriptor(self->fd);
        --files_live;
    }
    if (self->weak_references != nullptr) PyObject_ClearWeakRefs(object);
    Py_CLEAR(self->name);
    Py_CLEAR(self->kept);
    if (saved) bridge::restore_exception(ref::share(saved.get()));
    PyObject_Free(object);
    Py_DECREF(type);
}

// What every operation asks first; the caller's mistakes are told at once, not at the await.
file_object* usable(PyObject* object, bool for_reading, bool for_writing) noexcept {
    file_object* self = cast(object);
    if (self->closing || self->fd < 0) {
        PyErr_SetString(PyExc_ValueError, "I/O operation on closed file");
        return nullptr;
    }
    if ((for_reading && !self->readable) || (for_writing && !self->writable)) {
        PyErr_SetString(unsupported_operation, for_reading ? "not readable: open it with a mode "
                                                             "that reads"
                                                           : "not writable: open it with a mode "
                                                             "that writes");
        return nullptr;
    }
    return self;
}

bool read_size(PyObject* value, Py_ssize_t& size) noexcept {
    if (value == Py_None) {
        size = -1;
        return true;
    }
    size = PyNumber_AsSsize_t(value, PyExc_OverflowError);
    if (size == -1 && PyErr_Occurred() != nullptr) return false;
    if (size >= -1) return true;
    PyErr_Format(PyExc_ValueError, "read size must be -1 (all) or not negative, not %zd", size);
    return false;
}

bool read_offset(PyObject* value, std::int64_t& offset) noexcept {
    offset = PyLong_AsLongLong(value);
    if (offset == -1 && PyErr_Occurred() != nullptr) return false;
    if (offset >= 0) return true;
    PyErr_SetString(PyExc_ValueError, "offset must not be negative");
    return false;
}

bool check_positional(file_object* self) noexcept {
    if (self->positional) return true;
    PyErr_SetString(unsupported_operation, "a stream has no offsets: use read() and write()");
    return false;
}

PyObject* file_read(PyObject* object, PyObject* value) {
    file_object* self = usable(object, true, false);
    Py_ssize_t size = 0;
    if (self == nullptr || !read_size(value, size)) return nullptr;
    return size < 0 ? await_read_all(self) : await_read(self, size, -1);
}

PyObject* file_pread(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    file_object* self = usable(object, true, false);
    if (self == nullptr) return nullptr;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "pread() takes size and offset");
    Py_ssize_t size = 0;
    std::int64_t offset = 0;
    if (!check_positional(self) || !read_size(args[0], size) || !read_offset(args[1], offset))
        return nullptr;
    if (size < 0) return PyErr_Format(PyExc_ValueError, "pread() needs a size of 0 or more");
    return await_read(self, size, offset);
}

PyObject* file_readinto(PyObject* object, PyObject* buffer) {
    file_object* self = usable(object, true, false);
    return self == nullptr ? nullptr : await_read_into(self, buffer);
}

PyObject* file_write(PyObject* object, PyObject* data) {
    file_object* self = usable(object, false, true);
    return self == nullptr ? nullptr : await_write(self, data, -1);
}

PyObject* file_pwrite(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    file_object* self = usable(object, false, true);
    if (self == nullptr) return nullptr;
    if (count != 2) return PyErr_Format(PyExc_TypeError, "pwrite() takes data and offset");
    std::int64_t offset = 0;
    if (!check_positional(self) || !read_offset(args[1], offset)) return nullptr;
    return await_write(self, args[0], offset);
}

PyObject* file_fsync(PyObject* object, PyObject* data_only) {
    file_object* self = usable(object, false, false);
    const int truth = PyObject_IsTrue(data_only);
    return self == nullptr || truth < 0 ? nullptr : await_fsync(self, truth == 1);
}

PyObject* file_truncate(PyObject* object, PyObject* value) {
    file_object* self = usable(object, false, true);
    std::int64_t size = 0;
    if (self == nullptr || !read_offset(value, size)) return nullptr;
    return await_truncate(self, size);
}

PyObject* file_close(PyObject* object, PyObject*) {
    return await_close(cast(object));
}

PyObject* file_fileno(PyObject* object, PyObject*) {
    file_object* self = usable(object, false, false);
    return self == nullptr ? nullptr : PyLong_FromLong(self->fd);
}

PyObject* get_closed(PyObject* object, void*) {
    return PyBool_FromLong(cast(object)->closing || cast(object)->fd < 0);
}
PyObject* get_position(PyObject* object, void*) {
    return PyLong_FromLongLong(cast(object)->position);
}
int set_position(PyObject* object, PyObject* value, void*) {
    std::int64_t offset = 0;
    if (value == nullptr || !read_offset(value, offset)) return -1;
    cast(object)->position = offset;
    return 0;
}

PyMethodDef methods[] = {
    {"read", file_read, METH_O, "read(size): bytes from the position on; -1 or None reads all."},
    {"pread", bridge::method(file_pread), METH_FASTCALL, "pread(size, offset): bytes."},
    {"readinto", file_readinto, METH_O, "readinto(buffer): number of bytes."},
    {"write", file_write, METH_O, "write(data): number of bytes, always all of them."},
    {"pwrite", bridge::method(file_pwrite), METH_FASTCALL, "pwrite(data, offset)."},
    {"fsync", file_fsync, METH_O, "fsync(data_only)."},
    {"truncate", file_truncate, METH_O, "truncate(size), by a worker."},
    {"close", file_close, METH_NOARGS, "Closes it once nothing is in flight on it."},
    {"fileno", file_fileno, METH_NOARGS, "The descriptor."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {{"closed", get_closed, nullptr, nullptr, nullptr},
                            {"position", get_position, set_position, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"name", T_OBJECT, offsetof(file_object, name), READONLY, nullptr},
    {"positional", T_BOOL, offsetof(file_object, positional), READONLY, nullptr},
    {"readable", T_BOOL, offsetof(file_object, readable), READONLY, nullptr},
    {"writable", T_BOOL, offsetof(file_object, writable), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(file_object, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(deallocate)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, attributes},
                       {Py_tp_members, members},
                       {0, nullptr}};
PyType_Spec spec = {"ringloop._native.File", sizeof(file_object), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyObject* attribute_of(const char* module_name, const char* name) noexcept {
    const ref module = ref::steal(PyImport_ImportModule(module_name));
    return module ? PyObject_GetAttrString(module.get(), name) : nullptr;
}

}  // namespace

void close_descriptor(int fd) noexcept {
    const ref saved = bridge::take_exception();
    const ref answer = ref::steal(PyObject_CallFunction(os_close, "i", fd));
    if (!answer) PyErr_WriteUnraisable(os_close);
    if (saved) bridge::restore_exception(ref::share(saved.get()));
}

PyObject* new_file(int fd, const descriptor_facts& facts, PyObject* name, int access) noexcept {
    file_object* made = PyObject_New(file_object, file_type);
    if (made == nullptr) {
        close_descriptor(fd);
        return nullptr;
    }
    made->name = Py_NewRef(name);
    made->kept = nullptr;
    made->weak_references = nullptr;
    made->fd = fd;
    made->readable = (access & access_read) != 0;
    made->writable = (access & access_write) != 0;
    made->append = (access & access_append) != 0;
    made->positional = facts.positional;
    made->closing = false;
    made->position = made->append && facts.positional ? facts.size : 0;
    made->users = 0;
    made->current = made->first_waiting = made->last_waiting = nullptr;
    made->closer = nullptr;
    made->previous = nullptr;
    made->next = first_file;
    if (first_file != nullptr) first_file->previous = made;
    first_file = made;
    ++files_live;
    return made->object();
}

void list_files(owner_list& found) noexcept {
    for (file_object* file = first_file; file != nullptr; file = file->next) {
        if (!found.wants(file->fd)) continue;
        const char* const state = file->closing ? "closing" : file->users > 0 ? "in use" : "open";
        found.add(file->fd, "file", file->object(), nullptr, state);
    }
}

int add_file_types(PyObject* module) noexcept {
    ledger_add("awaitables", &bridge::awaitables_live);
    ledger_add("awaits_pending", &bridge::awaitables_pending);
    ledger_add("iterators", &bridge::iterators_live);
    ledger_add("jobs", &bridge::jobs_live);
    ledger_add("files", &files_live);
    ledger_add("shared_handles", &bridge::shared_handles_live);
    unsupported_operation = attribute_of("io", "UnsupportedOperation");
    os_close = attribute_of("os", "close");
    file_type = reinterpret_cast<PyTypeObject*>(PyType_FromModuleAndSpec(module, &spec, nullptr));
    if (unsupported_operation == nullptr || os_close == nullptr || file_type == nullptr) return -1;
    for (PyMethodDef* functions : {file_functions, tree_functions, call_functions})
        if (PyModule_AddFunctions(module, functions) < 0) return -1;
    if (PyModule_AddObjectRef(module, "File", reinterpret_cast<PyObject*>(file_type)) < 0)
        return -1;
    return add_probe(module);
}

}  // namespace ringloop::python
