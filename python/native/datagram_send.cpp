// Sending: from sendto() to the kernel. Contract in datagram.hpp.
//
// The first datagram of a turn goes to the kernel at once, its error to the protocol before
// sendto() returns. What the same turn sends behind it, and what the protocol answers from
// datagram_received(), waits for the turn's end and leaves by sendmmsg(), in order. What the kernel
// does not take waits for the socket to be writable: only that counts for flow control. Thread: the
// loop's, GIL held.
#include <algorithm>
#include <cerrno>
#include <span>

#include "datagram.hpp"
#include "poll_events.hpp"
#include "transport_base.hpp"
#include "transport_names.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

constexpr std::size_t batch_max = 32;
constexpr std::size_t gathered_max = 64;  // datagrams: more are not held back for a turn
constexpr std::uint8_t vain_max = 5;      // back off from 1 ms to 32 ms

enum class telling { now, later };

void fill(mmsghdr& header, iovec& piece, PyObject* data, const wire_address& to) noexcept {
    piece = {PyBytes_AS_STRING(data), static_cast<std::size_t>(PyBytes_GET_SIZE(data))};
    header = {};
    header.msg_hdr.msg_iov = &piece;
    header.msg_hdr.msg_iovlen = 1;
    if (to.size == 0) return;
    header.msg_hdr.msg_name = const_cast<std::byte*>(to.bytes);
    header.msg_hdr.msg_namelen = to.size;
}

// Sends by the Python socket, which reads the address, perhaps by resolving a name: 1, -EAGAIN, or
// not_an_errno with an exception set.
constexpr int not_an_errno = -(1 << 20);

int send_by_socket(datagram_state& t, PyObject* data, PyObject* address) noexcept {
    ref socket = ref::share(t.socket);
    PyObject* const arguments[3] = {socket.get(), data, address};
    ref done =
        t.connected
            ? ref::steal(PyObject_CallMethodOneArg(socket.get(), datagram_words().send, data))
            : ref::steal(PyObject_VectorcallMethod(datagram_words().sendto, arguments, 3, nullptr));
    if (done) return 1;
    if (PyErr_ExceptionMatches(PyExc_BlockingIOError)) {
        PyErr_Clear();
        return -EAGAIN;
    }
    return not_an_errno;
}

int tell_by_handle(datagram_state& t, PyObject* exception) noexcept {
    ref later = ref::steal(PyObject_GetAttr(object_of(t), datagram_words()._tell_error));
    if (!later) return -1;
    return loop_call_soon(loop_of(t), later.get(), exception, t.context);
}

// What became of one datagram: `error` is an errno, or 0 for the exception that is set. 0, or -1
// with what the protocol raised.
int tell_send_error(datagram_state& t, int error, telling when) noexcept {
    if (!io_usable(t)) {
        PyErr_Clear();
        return 0;
    }
    ref exception = error != 0 ? datagram_error(error) : bridge::take_exception();
    if (!exception) return -1;
    if (!PyErr_GivenExceptionMatches(exception.get(), PyExc_OSError)) {
        const bool ends_run =
            PyErr_GivenExceptionMatches(exception.get(), PyExc_SystemExit) != 0 ||
            PyErr_GivenExceptionMatches(exception.get(), PyExc_KeyboardInterrupt) != 0;
        bridge::restore_exception(std::move(exception));
        return ends_run ? -1 : datagram_fatal_error(t, "Fatal write error on datagram transport");
    }
    if (when == telling::later) return tell_by_handle(t, exception.get());
    ref done = ref::steal(datagram_tell_error(object_of(t), exception.get()));
    return done ? 0 : -1;
}

// Hands over the front of the queue: how many datagrams left it, or a negated errno of the first,
// or not_an_errno with an exception set.
int send_front(datagram_state& t) noexcept {
    queued_datagram& first = t.out[0];
    if (first.address != nullptr) {
        ref data = ref::share(first.data);
        ref address = ref::share(first.address);
        return send_by_socket(t, data.get(), address.get());
    }
    mmsghdr headers[batch_max];
    iovec pieces[batch_max];
    std::size_t count = 0;
    const std::size_t most = std::min(t.out.size(), batch_max);
    for (; count < most && t.out[count].address == nullptr; ++count) {
        fill(headers[count], pieces[count], t.out[count].data, t.out[count].to);
    }
    return io_of(loop_of(t)).try_sendmmsg(t.fd, {headers, count});
}

// Sends what is queued until the kernel takes no more (t.blocked). Errors cost their datagram only.
// Returns how many left the queue.
std::size_t send_queued(datagram_state& t, telling when) noexcept {
    std::size_t done = 0;
    while (!t.out.empty() && loop_of(t) != nullptr && !t.fd_gone) {
        const int result = send_front(t);
        if (result == -EINTR) continue;
        if (result == -EAGAIN) {
            t.blocked = true;
            return done;
        }
        const std::size_t gone = result > 0 ? static_cast<std::size_t>(result) : 1;
        t.out.pop(std::min(gone, t.out.size()));
        done += gone;
        if (result > 0) continue;
        if (result != not_an_errno && datagram_lost_descriptor(t, -result)) return done;
        if (tell_send_error(t, result == not_an_errno ? 0 : -result, when) < 0)
            (void)datagram_callback_failed(t, "Exception in callback error_received()");
    }
    return done;
}

void wait_writable(datagram_state& t) noexcept {
    if (t.writable.in_flight() || !io_usable(t) || t.connection_lost_count > 0) return;
    t.writable.prepare_poll(t.fd, poll_out);
    Py_INCREF(object_of(t));
    io_of(loop_of(t)).submit(t.writable);
}

// A full receiver of a Unix sender that is not connected to it: poll says "writable" and sendmsg()
// "not now". Without a pause the loop would spin.
void back_off(datagram_state& t) noexcept {
    const double delay_s = 0.001 * (1 << std::min(t.vain, vain_max));
    if (t.vain < vain_max) ++t.vain;
    ref again = ref::steal(PyObject_GetAttr(object_of(t), datagram_words()._send_again));
    ref timer = ref::steal(again ? PyObject_CallMethod(reinterpret_cast<PyObject*>(loop_of(t)),
                                                       "call_later", "dO", delay_s, again.get())
                                 : nullptr);
    if (timer) return;
    (void)datagram_callback_failed(t, "a datagram endpoint could not set its timer");
    wait_writable(t);
}

// The kernel may take more: goes on, waits again, or tells the protocol that there is room.
void go_on(datagram_state& t) noexcept {
    t.blocked = false;
    context_scope scope(t.context);
    const std::size_t done = send_queued(t, telling::now);
    if (loop_of(t) == nullptr || t.connection_lost_count > 0) return;
    if (done > 0) t.vain = 0;
    if (t.blocked) {
        if (done > 0) {
            wait_writable(t);
        } else {
            back_off(t);
        }
    }
    if (protocol_paused(object_of(t))) {
        ref resumed =
            ref::steal(PyObject_CallMethodNoArgs(object_of(t), names()._maybe_resume_protocol));
        if (!resumed) (void)datagram_callback_failed(t, "protocol.resume_writing() failed");
    }
    if (!t.blocked && datagram_end_if_drained(t) < 0)
        (void)datagram_callback_failed(t, "Fatal write error on datagram transport");
}

void at_turn_end(datagram_state& t) noexcept {
    if (t.turn_end.queued) return;
    Py_INCREF(object_of(t));  // the queued hook's own
    loop_at_turn_end(loop_of(t), t.turn_end);
}

// ---- sendto()

int check_address(datagram_state& t, PyObject*& address) noexcept {
    if (t.remote == nullptr) return 0;
    if (address != Py_None && address != t.remote) {
        const int same = PyObject_RichCompareBool(address, t.remote, Py_EQ);
        if (same < 0) return -1;
        if (same == 0) {
            PyErr_Format(PyExc_ValueError, "Invalid address: must be None or %S", t.remote);
            return -1;
        }
    }
    address = t.remote;
    return 0;
}

// Where it goes: the wire form, or `address` for the socket module.
void find_receiver(datagram_state& t, PyObject*& address, wire_address& to) noexcept {
    if (t.connected) {
        address = nullptr;
        return;
    }
    if (t.known != nullptr && t.known->find(address, to)) {
        address = nullptr;
    } else if (parse_address(t.family, address, to)) {
        address = nullptr;
    } else {
        to.size = 0;
    }
}

int enqueue(datagram_state& t, PyObject* data, PyObject* address, const wire_address& to) noexcept {
    if (!t.out.push(data, address, to)) return -1;
    if (t.blocked) return maybe_pause(object_of(t), t.out.bytes(), t.context);
    if (t.out.size() >= gathered_max ||
        t.out.bytes() > std::min(default_high_water, high_water(object_of(t))))
        datagram_flush(t);
    if (t.blocked) return maybe_pause(object_of(t), t.out.bytes(), t.context);
    at_turn_end(t);
    return 0;
}

// At once: nothing is queued before it.
int send_first(datagram_state& t, PyObject* data, PyObject* address,
               const wire_address& to) noexcept {
    int result = 0;
    if (address != nullptr) {
        result = send_by_socket(t, data, address);
    } else {
        mmsghdr header;
        iovec piece;
        fill(header, piece, data, to);
        do result = io_of(loop_of(t)).try_sendmmsg(t.fd, {&header, 1});
        while (result == -EINTR);
    }
    if (result > 0) {
        at_turn_end(t);  // what follows in this turn is gathered
        return 0;
    }
    if (result == -EAGAIN) {
        t.blocked = true;
        wait_writable(t);
        return enqueue(t, data, address, to);
    }
    if (result != not_an_errno && datagram_lost_descriptor(t, -result)) return 0;
    return tell_send_error(t, result == not_an_errno ? 0 : -result, telling::now);
}

int send_datagram(datagram_state& t, PyObject* given, PyObject* address) noexcept {
    if (!PyBytes_Check(given) && !PyByteArray_Check(given) && !PyMemoryView_Check(given)) {
        ref type = ref::steal(PyType_GetName(Py_TYPE(given)));
        if (type) {
            PyErr_Format(PyExc_TypeError, "data argument must be a bytes-like object, not %R",
                         type.get());
        }
        return -1;
    }
    // What it holds now is what is sent.
    ref data = PyBytes_Check(given) ? ref::share(given) : ref::steal(PyBytes_FromObject(given));
    if (!data) return -1;
#if PY_VERSION_HEX < 0x030D0000
    if (PyBytes_GET_SIZE(data.get()) == 0) return 0;  // as asyncio before 3.13
#endif
    if (check_address(t, address) < 0) return -1;
    if (t.connection_lost_count > 0 && (t.remote != nullptr || !t.fd_open || t.fd_gone)) {
        write_to_lost(t.connection_lost_count);
        return 0;
    }
    if (!io_usable(t)) {
        PyErr_SetString(PyExc_RuntimeError, "Event loop is closed");
        return -1;
    }
    wire_address to;
    find_receiver(t, address, to);
    if (t.out.empty() && !t.blocked && !t.delivering && !t.turn_end.queued)
        return send_first(t, data.get(), address, to);
    return enqueue(t, data.get(), address, to);
}

}  // namespace

PyObject* datagram_sendto(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                          PyObject* keywords) noexcept {
    if (!on_its_thread(self, "transport.sendto()")) return nullptr;
    PyObject* values[2] = {nullptr, nullptr};
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    bool good = count <= 2;
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(count, 2); ++i) values[i] = arguments[i];
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject* keyword = PyTuple_GET_ITEM(keywords, i);
        const bool is_data = PyUnicode_CompareWithASCIIString(keyword, "data") == 0;
        const bool is_address = PyUnicode_CompareWithASCIIString(keyword, "addr") == 0;
        PyObject*& value = values[is_data ? 0 : 1];
        good = good && (is_data || is_address) && value == nullptr;
        value = arguments[count + i];
    }
    if (!good || values[0] == nullptr) {
        PyErr_SetString(PyExc_TypeError, "sendto() takes data and, optionally, addr");
        return nullptr;
    }
    PyObject* address = values[1] != nullptr ? values[1] : Py_None;
    if (send_datagram(datagram_of(self), values[0], address) < 0) return nullptr;
    Py_RETURN_NONE;
}

void datagram_on_writable(operation& op, const completion& result) noexcept {
    auto& t = *reinterpret_cast<datagram_state*>(reinterpret_cast<char*>(&op) -
                                                 offsetof(datagram_state, writable));
    ref self = ref::steal(object_of(t));  // the reference of the poll that ended
    if (!io_usable(t) || t.connection_lost_count > 0) return;
    const int error = -result.result;
    if (error > 0 && error != EINTR && error != EAGAIN && error != ECANCELED) {
        if (datagram_lost_descriptor(t, error)) return;
        datagram_tell_failure(t, error);
        if (!io_usable(t) || t.connection_lost_count > 0) return;
    }
    go_on(t);
}

PyObject* datagram_send_again(PyObject* self, PyObject*) noexcept {
    datagram_state& t = datagram_of(self);
    if (io_usable(t) && t.connection_lost_count == 0 && !t.writable.in_flight()) go_on(t);
    Py_RETURN_NONE;
}

void datagram_flush(datagram_state& t) noexcept {
    if (t.out.empty() || loop_of(t) == nullptr) return;
    if (loop_is_forked(loop_of(t))) {  // the parent sends them
        t.out.clear();
        return;
    }
    (void)send_queued(t, telling::later);
    if (t.blocked) wait_writable(t);
    if (!io_usable(t)) t.out.clear();  // nobody will wait for room any more
}

}  // namespace ringloop::python
