// add_reader and add_writer. Contract in watch.hpp.
#include "watch.hpp"

#include <poll.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "loop_object.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

// The number behind an int or a fileno(), unchecked. False with an exception set.
bool descriptor_value(PyObject* object, long& value) noexcept {
    if (PyLong_Check(object)) {
        value = PyLong_AsLong(object);
        return value != -1 || !PyErr_Occurred();
    }
    ref number = ref::steal(PyObject_CallMethod(object, "fileno", nullptr));
    if (number && PyLong_Check(number.get())) return descriptor_value(number.get(), value);
    if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_AttributeError) &&
        !PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError))
        return false;
    PyErr_Clear();
    PyErr_Format(PyExc_ValueError, "Invalid file object: %R", object);
    return false;
}

}  // namespace

int descriptor_of(PyObject* object) noexcept {
    long value = 0;
    if (!descriptor_value(object, value)) return -1;
    if (value < 0 || value > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "Invalid file descriptor: %ld", value);
        return -1;
    }
    return static_cast<int>(value);
}

namespace {

// Refuses at once what a poll could never report (as epoll does): closed numbers, regular files,
// directories.
int check_pollable(int fd) noexcept {
    struct stat status;
    if (fstat(fd, &status) < 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    if (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode)) {
        errno = EPERM;
        ref error = ref::steal(Py_BuildValue(
            "(is)", EPERM, "a regular file or directory cannot be watched: use ringloop.open()"));
        if (error) PyErr_SetObject(PyExc_PermissionError, error.get());
        return -1;
    }
    return 0;
}

void arm(fd_watch& watch, int fd) noexcept {
    watch.prepare_poll(fd, watch.writer ? POLLOUT : POLLIN);
    io_of(watch.loop).submit(watch);
}

}  // namespace

int watch_table::add(loop_object* loop, int fd, bool writer, handle_object* handle) noexcept {
    if (check_pollable(fd) < 0) {
        Py_DECREF(handle);
        return -1;
    }
    // A watch that is there may wait on a file that has since been closed under this number: always
    // a fresh poll.
    erase(loop, key(fd, writer), true);
    try {
        fd_watch& watch =
            watches_.try_emplace(key(fd, writer), &watch_table::on_ready).first->second;
        watch.loop = loop;
        watch.handle = handle;
        watch.writer = writer;
        arm(watch, fd);
        return 0;
    } catch (const std::bad_alloc&) {
        Py_DECREF(handle);
        PyErr_NoMemory();
        return -1;
    }
}

int watch_table::remove(loop_object* loop, int fd, bool writer) noexcept {
    if (watches_.find(key(fd, writer)) == watches_.end()) return 0;
    erase(loop, key(fd, writer), true);
    return 1;
}

void watch_table::erase(loop_object* loop, long long which, bool retire) noexcept {
    auto found = watches_.find(which);
    if (found == watches_.end()) return;
    fd_watch& watch = found->second;
    handle_object* handle = std::exchange(watch.handle, nullptr);
    if (retire && watch.in_flight()) io_of(loop).retire(watch);
    watches_.erase(which);
    handle->cancelled = true;
    handle_drop(handle);
    Py_DECREF(handle);
}

void watch_table::clear(loop_object* loop, bool retire) noexcept {
    while (!watches_.empty()) erase(loop, watches_.begin()->first, retire);
}

int watch_table::traverse(visitproc visit, void* argument) noexcept {
    for (auto& [which, watch] : watches_) {
        if (watch.handle == nullptr) continue;
        const int result = handle_traverse_contents(watch.handle, visit, argument);
        if (result != 0) return result;
    }
    return 0;
}

// The descriptor cannot be polled any more: the watch goes, with a report.
void watch_table::lose(fd_watch& watch, int error) noexcept {
    loop_object* loop = watch.loop;
    ref number = ref::steal(PyLong_FromLong(watch.fd));
    loop->state.watches.erase(loop, key(watch.fd, watch.writer), false);
    ref value = ref::steal(Py_BuildValue("(is)", error, std::strerror(error)));
    if (value) PyErr_SetObject(PyExc_OSError, value.get());
    loop_report(loop,
                "a watched descriptor can no longer be polled; its reader or writer was removed",
                "fd", number.get());
}

void watch_table::on_ready(operation& op, const completion& result) noexcept {
    auto& watch = static_cast<fd_watch&>(op);
    if (watch.handle == nullptr || result.result == -ECANCELED) return;  // being removed
    if (result.result < 0 && result.result != -EINTR && result.result != -EAGAIN)
        return lose(watch, -result.result);
    loop_object* loop = watch.loop;
    handle_object* handle = watch.handle;
    const int fd = watch.fd;
    const bool writer = watch.writer;
    Py_INCREF(handle);
    if (result.result >= 0 && handle_run_again(handle) < 0) (void)loop_take_fatal(loop);
    // The callback may have removed the watch, or replaced it.
    auto& table = loop->state.watches.watches_;
    auto found = table.find(key(fd, writer));
    if (found != table.end() && found->second.handle == handle && !found->second.in_flight())
        arm(found->second, fd);
    Py_DECREF(handle);
}

namespace {

loop_object* cast(PyObject* self) noexcept {
    return reinterpret_cast<loop_object*>(self);
}

PyObject* add(PyObject* self, PyObject* const* arguments, Py_ssize_t count, bool writer,
              const char* name) noexcept {
    loop_object* loop = cast(self);
    if (count < 2) {
        PyErr_Format(PyExc_TypeError, "%s() needs a descriptor and a callback", name);
        return nullptr;
    }
    if (loop->closed) return raise_closed(loop), nullptr;
    if (check_debug(loop, arguments[1], name, true) < 0) return nullptr;
    const int fd = descriptor_of(arguments[0]);
    if (fd < 0) return nullptr;
    handle_object* handle =
        make_handle(loop, false, arguments[1], arguments + 2, count - 2, nullptr);
    if (handle == nullptr) return nullptr;
    Py_INCREF(handle);
    if (loop->state.watches.add(loop, fd, writer, handle) < 0) {
        Py_DECREF(handle);
        return nullptr;
    }
    return reinterpret_cast<PyObject*>(handle);
}

PyObject* drop(PyObject* self, PyObject* object, bool writer) noexcept {
    loop_object* loop = cast(self);
    long fd = 0;
    if (!descriptor_value(object, fd)) return nullptr;
    if (loop->closed || fd < 0 || fd > INT_MAX)
        Py_RETURN_FALSE;  // closed already: nothing to remove
    return PyBool_FromLong(loop->state.watches.remove(loop, static_cast<int>(fd), writer));
}

// The public twins refuse a transport's descriptor.
int check_free(loop_object* loop, PyObject* object) noexcept {
    long fd = 0;
    if (!descriptor_value(object, fd)) return -1;
    auto& transports = loop->state.transports;
    if (fd >= 0 && static_cast<std::size_t>(fd) < transports.size() && transports[fd] != nullptr) {
        PyErr_Format(PyExc_RuntimeError, "File descriptor %R is used by transport %R", object,
                     transports[fd]);
        return -1;
    }
    return 0;
}

PyObject* add_reader_raw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    return add(self, arguments, count, false, "add_reader");
}
PyObject* add_writer_raw(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    return add(self, arguments, count, true, "add_writer");
}
PyObject* add_reader(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count > 0 && check_free(cast(self), arguments[0]) < 0) return nullptr;
    ref handle = ref::steal(add(self, arguments, count, false, "add_reader"));
    return handle ? Py_NewRef(Py_None) : nullptr;
}
PyObject* add_writer(PyObject* self, PyObject* const* arguments, Py_ssize_t count) noexcept {
    if (count > 0 && check_free(cast(self), arguments[0]) < 0) return nullptr;
    ref handle = ref::steal(add(self, arguments, count, true, "add_writer"));
    return handle ? Py_NewRef(Py_None) : nullptr;
}
PyObject* remove_reader_raw(PyObject* self, PyObject* object) noexcept {
    return drop(self, object, false);
}
PyObject* remove_writer_raw(PyObject* self, PyObject* object) noexcept {
    return drop(self, object, true);
}
PyObject* remove_reader(PyObject* self, PyObject* object) noexcept {
    if (check_free(cast(self), object) < 0) return nullptr;
    return drop(self, object, false);
}
PyObject* remove_writer(PyObject* self, PyObject* object) noexcept {
    if (check_free(cast(self), object) < 0) return nullptr;
    return drop(self, object, true);
}

}  // namespace

PyMethodDef loop_watch_methods[] = {
    {"add_reader", bridge::method(add_reader), METH_FASTCALL,
     "add_reader(fd, callback, *args)\n\nCalls callback(*args) whenever fd is readable."},
    {"add_writer", bridge::method(add_writer), METH_FASTCALL,
     "add_writer(fd, callback, *args)\n\nCalls callback(*args) whenever fd is writable."},
    {"remove_reader", remove_reader, METH_O,
     "remove_reader(fd)\n\nStops watching; True if it was watched. Nothing of it is in flight "
     "afterwards."},
    {"remove_writer", remove_writer, METH_O,
     "remove_writer(fd)\n\nStops watching; True if it was watched. Nothing of it is in flight "
     "afterwards."},
    {"_add_reader", bridge::method(add_reader_raw), METH_FASTCALL, nullptr},
    {"_add_writer", bridge::method(add_writer_raw), METH_FASTCALL, nullptr},
    {"_remove_reader", remove_reader_raw, METH_O, nullptr},
    {"_remove_writer", remove_writer_raw, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
