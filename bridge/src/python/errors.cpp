// The exception map. GIL held throughout.
#include "ringloop/bridge/python/errors.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/resolve.hpp"
#include "ringloop/when.hpp"

namespace ringloop::bridge {
namespace {

PyObject* imported(const char* name) noexcept {
    ref module = ref::steal(PyImport_ImportModule("asyncio.exceptions"));
    return module ? PyObject_GetAttrString(module.get(), name) : nullptr;
}

// What native code says is UTF-8, as a rule. What is not, the name of a file for instance, shows
// escaped, and the exception keeps its type.
ref text_of(const char* words) noexcept {
    return ref::steal(PyUnicode_DecodeUTF8(words, static_cast<Py_ssize_t>(std::strlen(words)),
                                           "backslashreplace"));
}

void raise_text(PyObject* type, const char* words) noexcept {
    if (const ref text = text_of(words)) PyErr_SetObject(type, text.get());
}

// An exception that is made of a number and words.
void raise_numbered(PyObject* type, int number, const char* words) noexcept {
    const ref text = text_of(words);
    const ref exception =
        text ? ref::steal(PyObject_CallFunction(type, "iO", number, text.get())) : ref();
    if (exception)
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

void raise_system_error(const std::system_error& error) noexcept {
    const std::error_category& category = error.code().category();
    if (category != std::generic_category() && category != std::system_category()) {
        raise_text(PyExc_RuntimeError, error.what());
        return;
    }
    const int code = error.code().value();
    if (code == ECANCELED) {
        PyErr_SetNone(cancelled_error());
        return;
    }
    // what() begins with the caller's words: which call failed, and what to do about it.
    raise_numbered(PyExc_OSError, code, error.what());
}

// socket.gaierror, as asyncio's own lookups raise.
void raise_lookup_error(const net::resolve_error& error) noexcept {
    const ref module = ref::steal(PyImport_ImportModule("socket"));
    const ref type = module ? ref::steal(PyObject_GetAttrString(module.get(), "gaierror")) : ref();
    if (type) raise_numbered(type.get(), error.code(), error.what());
}

}  // namespace

PyObject* cancelled_error() noexcept {
    static PyObject* const type = imported("CancelledError");
    return type;
}

PyObject* invalid_state_error() noexcept {
    static PyObject* const type = imported("InvalidStateError");
    return type;
}

namespace {

// The exception for this one alone, without what it was thrown for.
void raise_one(const std::exception_ptr& error) noexcept {
    try {
        std::rethrow_exception(error);
    } catch (const std::system_error& e) {
        raise_system_error(e);
    } catch (const timed_out& e) {
        raise_text(PyExc_TimeoutError, e.what());
    } catch (const net::resolve_error& e) {
        raise_lookup_error(e);
    } catch (const operation_cancelled&) {
        PyErr_SetNone(cancelled_error());
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::invalid_argument& e) {
        raise_text(PyExc_ValueError, e.what());
    } catch (const std::domain_error& e) {
        raise_text(PyExc_ValueError, e.what());
    } catch (const std::length_error& e) {
        raise_text(PyExc_ValueError, e.what());
    } catch (const std::out_of_range& e) {
        raise_text(PyExc_IndexError, e.what());
    } catch (const std::overflow_error& e) {
        raise_text(PyExc_OverflowError, e.what());
    } catch (const std::exception& e) {
        raise_text(PyExc_RuntimeError, e.what());
    } catch (...) {
        PyErr_SetString(PyExc_RuntimeError,
                        "native code threw something that is no std::exception");
    }
}

PyObject* affinity_error_type = nullptr;

std::exception_ptr reason_of(const std::exception_ptr& error) noexcept {
    try {
        std::rethrow_exception(error);
    } catch (const std::nested_exception& e) {
        return e.nested_ptr();
    } catch (...) {
        return nullptr;
    }
}

constexpr int reasons_max = 64;  // of reasons of reasons: a chain has an end

void raise_with_reasons(const std::exception_ptr& error, int depth) noexcept {
    ref reason;
    if (const std::exception_ptr nested = reason_of(error); nested && depth < reasons_max) {
        raise_with_reasons(nested, depth + 1);
        reason = take_exception();
    }
    raise_one(error);
    if (!reason) return;
    ref raised = take_exception();
    PyException_SetCause(raised.get(), reason.release());
    restore_exception(std::move(raised));
}

}  // namespace

PyObject* affinity_error() noexcept {
    return affinity_error_type;
}

int add_affinity_error(PyObject* module) noexcept {
    affinity_error_type = PyErr_NewExceptionWithDoc(
        "ringloop.AffinityError",
        "Something of an event loop was used on another thread than the loop's, or on another "
        "loop.",
        PyExc_RuntimeError, nullptr);
    if (affinity_error_type == nullptr) return -1;
    return PyModule_AddObjectRef(module, "AffinityError", affinity_error_type);
}

void raise_from(const std::exception_ptr& error) noexcept {
    raise_with_reasons(error, 0);
}

namespace {

constexpr const char* kept_name = "_native_exception";

// A Python object around a native exception. It is pickled and copied as None: what it holds has a
// meaning in this process alone.
struct kept_object {
    PyObject ob_base;
    std::exception_ptr error;
};

void kept_dealloc(PyObject* self) {
    PyTypeObject* const type = Py_TYPE(self);
    reinterpret_cast<kept_object*>(self)->error.~exception_ptr();
    type->tp_free(self);
    Py_DECREF(type);
}

PyObject* kept_reduce(PyObject*, PyObject*) {
    return Py_BuildValue("(O())", reinterpret_cast<PyObject*>(Py_TYPE(Py_None)));
}

PyMethodDef kept_methods[] = {{"__reduce__", &kept_reduce, METH_NOARGS, nullptr},
                              {nullptr, nullptr, 0, nullptr}};
PyType_Slot kept_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(&kept_dealloc)},
                            {Py_tp_methods, kept_methods},
                            {0, nullptr}};
PyType_Spec kept_spec = {"ringloop.NativeException", sizeof(kept_object), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, kept_slots};

PyTypeObject* kept_type() noexcept {
    static PyObject* const type = PyType_FromSpec(&kept_spec);
    return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace

void keep_native(PyObject* exception, const std::exception_ptr& error) noexcept {
    PyTypeObject* const type = kept_type();
    const ref kept = type != nullptr ? ref::steal(type->tp_alloc(type, 0)) : ref();
    if (kept) {
        new (&reinterpret_cast<kept_object*>(kept.get())->error) std::exception_ptr(error);
        static_cast<void>(PyObject_SetAttrString(exception, kept_name, kept.get()));
    }
    PyErr_Clear();  // without memory, or attributes of its own, it goes without
}

std::exception_ptr native_of(PyObject* exception) noexcept {
    const ref kept = ref::steal(PyObject_GetAttrString(exception, kept_name));
    if (!kept) PyErr_Clear();
    if (!kept || Py_TYPE(kept.get()) != kept_type()) return nullptr;
    return reinterpret_cast<kept_object*>(kept.get())->error;
}

void raise_errno(long result, PyObject* path) noexcept {
    const int code = static_cast<int>(result < 0 ? -result : result);
    const char* text = std::strerror(code);
    ref exception =
        ref::steal(path == nullptr ? PyObject_CallFunction(PyExc_OSError, "is", code, text)
                                   : PyObject_CallFunction(PyExc_OSError, "isO", code, text, path));
    if (exception)
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

void raise_os_error(int code, const char* format, ...) noexcept {
    va_list words;
    va_start(words, format);
    const ref text = ref::steal(PyUnicode_FromFormatV(format, words));
    va_end(words);
    if (!text) return;
    const ref exception = ref::steal(PyObject_CallFunction(PyExc_OSError, "iO", code, text.get()));
    if (exception)
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())), exception.get());
}

}  // namespace ringloop::bridge
