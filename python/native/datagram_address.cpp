// Parsing and formatting of socket addresses. Contract in the header.
#include "datagram_address.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

bool number_in(PyObject* object, unsigned long max, unsigned long& value) noexcept {
    if (!PyLong_Check(object)) return false;
    value = PyLong_AsUnsignedLong(object);
    if (PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        return false;
    }
    return value <= max;
}

bool host_in(PyObject* object, int family, void* address) noexcept {
    if (!PyUnicode_Check(object)) return false;
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) {  // surrogates
        PyErr_Clear();
        return false;
    }
    if (std::strlen(text) != static_cast<std::size_t>(size)) return false;
    return inet_pton(family, text, address) == 1;
}

bool parse_v4(PyObject* address, wire_address& parsed) noexcept {
    unsigned long port = 0;
    if (!PyTuple_Check(address) || PyTuple_GET_SIZE(address) != 2) return false;
    if (!number_in(PyTuple_GET_ITEM(address, 1), 0xffff, port)) return false;
    parsed.v4 = {};
    parsed.v4.sin_family = AF_INET;
    parsed.v4.sin_port = htons(static_cast<std::uint16_t>(port));
    parsed.size = sizeof parsed.v4;
    return host_in(PyTuple_GET_ITEM(address, 0), AF_INET, &parsed.v4.sin_addr);
}

bool parse_v6(PyObject* address, wire_address& parsed) noexcept {
    if (!PyTuple_Check(address)) return false;
    const Py_ssize_t count = PyTuple_GET_SIZE(address);
    unsigned long port = 0;
    unsigned long flow = 0;
    unsigned long scope = 0;
    if (count < 2 || count > 4) return false;
    if (!number_in(PyTuple_GET_ITEM(address, 1), 0xffff, port)) return false;
    if (count > 2 && !number_in(PyTuple_GET_ITEM(address, 2), 0xfffff, flow)) return false;
    if (count > 3 && !number_in(PyTuple_GET_ITEM(address, 3), 0xffffffff, scope)) return false;
    parsed.v6 = {};
    parsed.v6.sin6_family = AF_INET6;
    parsed.v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    parsed.v6.sin6_flowinfo = htonl(static_cast<std::uint32_t>(flow));
    parsed.v6.sin6_scope_id = static_cast<std::uint32_t>(scope);
    parsed.size = sizeof parsed.v6;
    return host_in(PyTuple_GET_ITEM(address, 0), AF_INET6, &parsed.v6.sin6_addr);
}

bool parse_path(PyObject* address, wire_address& parsed) noexcept {
    ref encoded;
    if (PyUnicode_Check(address)) {
        encoded = ref::steal(PyUnicode_EncodeFSDefault(address));
        if (!encoded) PyErr_Clear();
    } else if (PyBytes_Check(address)) {
        encoded = ref::share(address);
    }
    if (!encoded) return false;
    const char* path = PyBytes_AS_STRING(encoded.get());
    const auto size = static_cast<std::size_t>(PyBytes_GET_SIZE(encoded.get()));
    if (size == 0 || size > sizeof parsed.local.sun_path) return false;
    const bool abstract = path[0] == '\0';
    if (!abstract && size == sizeof parsed.local.sun_path) return false;
    if (!abstract && std::memchr(path, '\0', size) != nullptr) return false;
    parsed.local = {};
    parsed.local.sun_family = AF_UNIX;
    std::memcpy(parsed.local.sun_path, path, size);
    parsed.size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size + (abstract ? 0 : 1));
    return true;
}

PyObject* path_object(const wire_address& address) noexcept {
    constexpr socklen_t start = offsetof(sockaddr_un, sun_path);
    const char* path = address.local.sun_path;
    if (address.size > start && path[0] == '\0') {
        return PyBytes_FromStringAndSize(path, static_cast<Py_ssize_t>(address.size - start));
    }
    // A path that fills all of it counts a null behind the end, too.
    const std::size_t named = address.size > start ? address.size - start : 0;
    const std::size_t most = std::min(named, sizeof address.local.sun_path);
    return PyUnicode_DecodeFSDefaultAndSize(path, static_cast<Py_ssize_t>(strnlen(path, most)));
}

// The bytes that tell addresses apart: without the padding of a sockaddr_in.
std::size_t significant(const wire_address& address) noexcept {
    return address.any.sa_family == AF_INET ? offsetof(sockaddr_in, sin_zero)
                                            : sizeof(sockaddr_in6);
}

// FNV-1a of what makes two addresses differ.
std::size_t place_of(const wire_address& address, std::size_t places) noexcept {
    const std::byte* at = address.bytes + offsetof(sockaddr_in, sin_port);
    const std::byte* end =
        address.bytes +
        (address.any.sa_family == AF_INET ? offsetof(sockaddr_in, sin_zero) : sizeof(sockaddr_in6));
    std::uint32_t hash = 2166136261U;
    for (; at != end; ++at) hash = (hash ^ static_cast<std::uint32_t>(*at)) * 16777619U;
    return (hash ^ (hash >> 16)) % places;
}

std::size_t place_of(const PyObject* object, std::size_t places) noexcept {
    const auto number = reinterpret_cast<std::uintptr_t>(object);
    return ((number >> 4) ^ (number >> 10)) % places;
}

}  // namespace

bool parse_address(int family, PyObject* address, wire_address& parsed) noexcept {
    switch (family) {
        case AF_INET:
            return parse_v4(address, parsed);
        case AF_INET6:
            return parse_v6(address, parsed);
        case AF_UNIX:
            return parse_path(address, parsed);
        default:
            return false;
    }
}

PyObject* address_object(const wire_address& address) noexcept {
    char text[INET6_ADDRSTRLEN] = {};
    if (address.size == 0) Py_RETURN_NONE;  // a Unix socket without a name
    switch (address.any.sa_family) {
        case AF_INET:
            inet_ntop(AF_INET, &address.v4.sin_addr, text, sizeof text);
            return Py_BuildValue("(si)", text, static_cast<int>(ntohs(address.v4.sin_port)));
        case AF_INET6:
            inet_ntop(AF_INET6, &address.v6.sin6_addr, text, sizeof text);
            return Py_BuildValue("(siII)", text, static_cast<int>(ntohs(address.v6.sin6_port)),
                                 static_cast<unsigned>(ntohl(address.v6.sin6_flowinfo)),
                                 static_cast<unsigned>(address.v6.sin6_scope_id));
        case AF_UNIX:
            return path_object(address);
        default:
            Py_RETURN_NONE;
    }
}

PyObject* address_cache::object_of(const wire_address& address) noexcept {
    const int family = address.size == 0 ? AF_UNSPEC : address.any.sa_family;
    if (family != AF_INET && family != AF_INET6) return address_object(address);
    const std::size_t place = place_of(address, places_);
    entry& known = entries_[place];
    if (known.object != nullptr && known.size == address.size &&
        std::memcmp(&known.address, address.bytes, significant(address)) == 0)
        return Py_NewRef(known.object);
    PyObject* object = address_object(address);
    if (object == nullptr) return nullptr;
    ref previous = ref::steal(std::exchange(known.object, Py_NewRef(object)));
    known.size = address.size;
    std::memcpy(&known.address, address.bytes, significant(address));
    by_object_[place_of(object, places_max)] = static_cast<std::uint8_t>(place);
    return object;
}

bool address_cache::find(PyObject* object, wire_address& found) const noexcept {
    const entry& known = entries_[by_object_[place_of(object, places_max)]];
    if (known.object != object) return false;
    found.v6 = known.address;
    found.size = known.size;
    return true;
}

void address_cache::clear() noexcept {
    for (std::size_t i = 0; i < places_; ++i) Py_CLEAR(entries_[i].object);
}

}  // namespace ringloop::python
