// The base of SSLTransport: write(). Methods over asyncio's _FlowControlMixin, and no state.
#include "loop.hpp"
#include "tls.hpp"
#include "transport.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

bool is_some_bytes(PyObject* data) noexcept {
    return (PyBytes_Check(data) && PyBytes_GET_SIZE(data) > 0) ||
           (PyByteArray_Check(data) && PyByteArray_GET_SIZE(data) > 0);
}

PyObject* ssl_protocol_name() noexcept {
    static PyObject* const name = PyUnicode_InternFromString("_ssl_protocol");
    return name;
}

PyObject* write(PyObject* self, PyObject* data) noexcept {
    static PyObject* const slow = PyUnicode_InternFromString("_write_slowly");
    if (!on_its_thread(self, "transport.write()")) return nullptr;
    // Nothing at all, a view, which may have gaps or wide items, or no bytes: Python looks at it.
    if (is_some_bytes(data)) {
        const ref protocol = ref::steal(PyObject_GetAttr(self, ssl_protocol_name()));
        if (!protocol) return nullptr;
        tls_protocol* const tls = as_tls_protocol(protocol.get());
        const int sent = tls != nullptr ? tls_send(*tls, data) : 0;
        if (sent < 0) return nullptr;
        if (sent > 0) Py_RETURN_NONE;
    }
    return PyObject_CallMethodOneArg(self, slow, data);
}

PyMethodDef methods[] = {
    {"write", write, METH_O, "Sends data; a mutable buffer may be changed at once."},
    {nullptr, nullptr, 0, nullptr}};

PyType_Slot own[] = {
    {Py_tp_doc, const_cast<char*>("The data path of ringloop.tls.SSLTransport.")},
    {Py_tp_methods, methods},
    {0, nullptr}};

PyType_Spec spec = {"ringloop._native.TlsTransport", 0, 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, own};

PyTypeObject* transport_base = nullptr;

}  // namespace

ref tls_behind(PyObject* transport) noexcept {
    if (!PyObject_TypeCheck(transport, transport_base)) return {};
    ref protocol = ref::steal(PyObject_GetAttr(transport, ssl_protocol_name()));
    if (!protocol) PyErr_Clear();
    return as_tls_protocol(protocol.get()) != nullptr ? std::move(protocol) : ref();
}

int add_tls_transport_type(PyObject* module, PyObject* bases) noexcept {
    PyObject* const type = PyType_FromModuleAndSpec(module, &spec, bases);
    transport_base = reinterpret_cast<PyTypeObject*>(type);
    return type != nullptr ? PyModule_AddObjectRef(module, "TlsTransport", type) : -1;
}

}  // namespace ringloop::python
