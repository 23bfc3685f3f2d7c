// add_reader and add_writer. Contract in watch.hpp.
#include "watch.hpp"

#include <poll.h>

#include <climits>
#include <cstring>

#include "arguments.hpp"
#include "loop_object.hpp"
#include "ringloop/bridge/python/errors.hpp"

namespace ringloop::python {

using bridge::ref;

namespace {

// The number behind an int or a fileno(), unchecked. False with an exception set.
bool descriptor_value(PyObject* object, long& value) noexcept {
    if (PyLong_Check(object)) {
        value = PyLong_AsLong(object);
        return value != -1 || !PyErr_Occurred();
    }
    static PyObject* const fileno = PyUnicode_InternFromString("fileno");
    ref number = ref::steal(PyObject_CallMethodNoArgs(object, fileno));
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
int check_pollable(driver& io, int fd) noexcept {
    descriptor_facts facts;
    if (const int error = io.inspect(fd, facts); error < 0) {
        bridge::raise_errno(error);
        return -1;
    }
    if (facts.positional || facts.directory) {
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

// The last reference to a callback may go, and with it any code run; an exception that is set
// stays.
void watch_table::drop(contents taken) noexcept {
    if (taken.handle == nullptr) return;
    taken.handle->cancelled = true;
    handle_drop(taken.handle);
    Py_DECREF(taken.handle);
}

int watch_table::add(loop_object* loop, int fd, bool writer, handle_object* handle,
                     PyObject* object) noexcept {
    if (check_pollable(io_of(loop), fd) < 0) {
        Py_DECREF(handle);
        return -1;
    }
    // A watch that is there may wait on a file that has since been closed under this number: always
    // a fresh poll. What the old callback runs when it is freed finds the new one in its place.
    contents before = take(loop, key(fd, writer), true);
    int result = 0;
    try {
        fd_watch& watch =
            watches_.try_emplace(key(fd, writer), &watch_table::on_ready).first->second;
        watch.loop = loop;
        watch.handle = handle;
        watch.object = Py_XNewRef(object);
        watch.writer = writer;
        arm(watch, fd);
    } catch (const std::bad_alloc&) {
        Py_DECREF(handle);
        PyErr_NoMemory();
        result = -1;
    }
    drop(std::move(before));
    return result;
}

int watch_table::remove(loop_object* loop, int fd, bool writer) noexcept {
    if (watches_.find(key(fd, writer)) == watches_.end()) return 0;
    erase(loop, key(fd, writer), true);
    return 1;
}

int watch_table::remove_closed(loop_object* loop, PyObject* object, bool writer) noexcept {
    for (const auto& [which, watch] : watches_) {
        if (watch.object != object || watch.writer != writer) continue;
        erase(loop, which, true);
        return 1;
    }
    return 0;
}

watch_table::contents watch_table::take(loop_object* loop, long long which, bool retire) noexcept {
    auto found = watches_.find(which);
    if (found == watches_.end()) return {};
    fd_watch& watch = found->second;
    contents held = {std::exchange(watch.handle, nullptr),
                     ref::steal(std::exchange(watch.object, nullptr))};
    if (retire && watch.in_flight()) io_of(loop).retire(watch);
    watches_.erase(which);
    return held;
}

void watch_table::erase(loop_object* loop, long long which, bool retire) noexcept {
    drop(take(loop, which, retire));
}

void watch_table::clear(loop_object* loop, bool retire) noexcept {
    while (!watches_.empty()) erase(loop, watches_.begin()->first, retire);
}

int watch_table::traverse(visitproc visit, void* argument) noexcept {
    for (auto& [which, watch] : watches_) {
        int result = watch.object != nullptr ? visit(watch.object, argument) : 0;
        if (result == 0 && watch.handle != nullptr)
            result = handle_traverse_contents(watch.handle, visit, argument);
        if (result != 0) return result;
    }
    return 0;
}

void watch_table::list_owners(owner_list& found, PyObject* loop) const noexcept {
    for (const auto& [which, watch] : watches_) {
        const auto fd = static_cast<int>(which / 2);  // key()
        if (watch.handle == nullptr || !found.wants(fd)) continue;
        auto* const holder = reinterpret_cast<PyObject*>(watch.handle);
        found.add(fd, watch.writer ? "writer" : "reader", holder, loop, "watching");
    }
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

constexpr const char* add_names[] = {"fd", "callback"};
constexpr const char* remove_names[] = {"fd"};

// The public twins (`checked`) refuse a transport's descriptor, and return None.
PyObject* add(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names,
              bool writer, bool checked) noexcept {
    loop_object* loop = cast(self);
    const char* name = writer ? "add_writer" : "add_reader";
    PyObject* given[2];
    if (!bind({name, add_names, 2, 2, true}, arguments, count, names, given)) return nullptr;
    const char* const wanted_by = writer ? "add_writer()" : "add_reader()";
    if (checked && check_no_transport(loop, given[0], wanted_by) < 0) return nullptr;
    if (loop->closed) return raise_closed(loop), nullptr;
    if (check_debug(loop, given[1], name, true) < 0) return nullptr;
    const int fd = descriptor_of(given[0]);
    if (fd < 0 || check_other_loops(loop, fd, wanted_by) < 0) return nullptr;
    const Py_ssize_t placed = count < 2 ? count : 2;
    ref handle = ref::steal(reinterpret_cast<PyObject*>(
        make_handle(loop, false, given[1], arguments + placed, count - placed, nullptr)));
    if (!handle) return nullptr;
    auto* watched = reinterpret_cast<handle_object*>(Py_NewRef(handle.get()));
    PyObject* const object = PyLong_Check(given[0]) ? nullptr : given[0];
    if (loop->state.watches.add(loop, fd, writer, watched, object) < 0) return nullptr;
    return checked ? Py_NewRef(Py_None) : handle.release();
}

PyObject* drop(PyObject* self, PyObject* object, bool writer) noexcept {
    loop_object* loop = cast(self);
    long fd = 0;
    if (!descriptor_value(object, fd)) return nullptr;
    if (loop->closed) Py_RETURN_FALSE;  // nothing is watched any more
    if (fd < 0 && !PyLong_Check(object) &&
        loop->state.watches.remove_closed(loop, object, writer) != 0) {
        Py_RETURN_TRUE;
    }
    if (fd < 0 || fd > INT_MAX) {
        PyErr_Format(PyExc_ValueError, "Invalid file descriptor: %ld", fd);
        return nullptr;
    }
    return PyBool_FromLong(loop->state.watches.remove(loop, static_cast<int>(fd), writer));
}

}  // namespace

int check_no_transport(loop_object* loop, PyObject* object, const char* wanted_by) noexcept {
    if (loop->state.transports.empty()) return 0;
    long fd = 0;
    if (!descriptor_value(object, fd)) return -1;
    auto& transports = loop->state.transports;
    if (fd >= 0 && static_cast<std::size_t>(fd) < transports.size() && transports[fd] != nullptr)
        return raise_conflict(object, "transport", transports[fd], wanted_by);
    return 0;
}

namespace {

// Of these two the public twins (`checked`) refuse a transport's descriptor.
template <bool writer, bool checked>
PyObject* add_method(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                     PyObject* names) noexcept {
    return add(self, arguments, count, names, writer, checked);
}

template <bool writer, bool checked>
PyObject* remove_method(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                        PyObject* names) noexcept {
    PyObject* fd = nullptr;
    if (!bind({writer ? "remove_writer" : "remove_reader", remove_names, 1, 1}, arguments, count,
              names, &fd))
        return nullptr;
    const char* const wanted_by = writer ? "remove_writer()" : "remove_reader()";
    if (checked && check_no_transport(cast(self), fd, wanted_by) < 0) return nullptr;
    return drop(self, fd, writer);
}

constexpr int with_names = METH_FASTCALL | METH_KEYWORDS;

}  // namespace

PyMethodDef loop_watch_methods[] = {
    {"add_reader", bridge::method(add_method<false, true>), with_names,
     "add_reader($self, fd, callback, *args)\n--\n\n"
     "Calls callback(*args) whenever fd is readable."},
    {"add_writer", bridge::method(add_method<true, true>), with_names,
     "add_writer($self, fd, callback, *args)\n--\n\n"
     "Calls callback(*args) whenever fd is writable."},
    {"remove_reader", bridge::method(remove_method<false, true>), with_names,
     "remove_reader($self, fd)\n--\n\n"
     "Stops watching; True if it was watched. Nothing of it is in flight afterwards."},
    {"remove_writer", bridge::method(remove_method<true, true>), with_names,
     "remove_writer($self, fd)\n--\n\n"
     "Stops watching; True if it was watched. Nothing of it is in flight afterwards."},
    {"_add_reader", bridge::method(add_method<false, false>), with_names, nullptr},
    {"_add_writer", bridge::method(add_method<true, false>), with_names, nullptr},
    {"_remove_reader", bridge::method(remove_method<false, false>), with_names, nullptr},
    {"_remove_writer", bridge::method(remove_method<true, false>), with_names, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace ringloop::python
