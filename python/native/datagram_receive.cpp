// Receiving: from a readable socket to datagram_received(). Contract in datagram.hpp.
//
// One batch a poll: what recvmmsg() finds goes to the protocol in order, then the poll is armed
// again. The room for a batch belongs to the thread, whatever the number of endpoints; only pages
// that datagrams have reached are ever touched. Thread: the loop's, GIL held.
#include <algorithm>
#include <cerrno>
#include <span>

#include "datagram.hpp"
#include "poll_events.hpp"

namespace ringloop::python {
namespace {

using bridge::ref;

constexpr std::size_t batch_max = 32;
constexpr std::size_t ip_bytes = 65536;          // no UDP datagram is longer
constexpr std::size_t other_bytes = 256 * 1024;  // asyncio's max_size
// Keeps the starts of the buffers apart in the caches, which see the low bits of addresses.
constexpr std::size_t stagger_bytes = 192;
// Answers leave at the turn's end, but slow callbacks hold them back no longer than this.
constexpr std::int64_t answer_delay_ns = 1'000'000;
constexpr std::size_t room_bytes = batch_max * (ip_bytes + stagger_bytes);
constexpr std::size_t other_max = room_bytes / (other_bytes + stagger_bytes);

// Memory for one batch. Its headers are always ready for the next call.
class receive_room {
  public:
    receive_room() : memory_(new char[room_bytes]) { divide(ip_bytes); }  // throws std::bad_alloc

    [[nodiscard]] std::span<mmsghdr> headers(bool ip) noexcept {
        const std::size_t wanted = ip ? ip_bytes : other_bytes;
        if (wanted != piece_bytes_) divide(wanted);
        const std::size_t count = ip ? batch_max : other_max;
        for (std::size_t i = 0; i < used_; ++i) {
            headers_[i].msg_hdr.msg_namelen = sizeof(sockaddr_un);
        }
        used_ = count;
        return {headers_, count};
    }
    void note_used(std::size_t count) noexcept { used_ = std::max<std::size_t>(count, 1); }

    [[nodiscard]] const char* data(std::size_t i) const noexcept {
        return static_cast<const char*>(pieces_[i].iov_base);
    }
    [[nodiscard]] std::size_t size(std::size_t i) const noexcept { return headers_[i].msg_len; }
    [[nodiscard]] const wire_address& from(std::size_t i) noexcept {
        names_[i].size = headers_[i].msg_hdr.msg_namelen;
        return names_[i];
    }

  private:
    void divide(std::size_t piece_bytes) noexcept {
        piece_bytes_ = piece_bytes;
        for (std::size_t i = 0; i < batch_max; ++i) {
            const std::size_t start = i * (piece_bytes + stagger_bytes);
            const bool there = start + piece_bytes <= room_bytes;
            pieces_[i] = {memory_.get() + (there ? start : 0), there ? piece_bytes : 0};
            headers_[i] = {};
            headers_[i].msg_hdr.msg_iov = &pieces_[i];
            headers_[i].msg_hdr.msg_iovlen = 1;
            headers_[i].msg_hdr.msg_name = names_[i].bytes;
            headers_[i].msg_hdr.msg_namelen = sizeof(sockaddr_un);
        }
    }

    std::unique_ptr<char[]> memory_;
    std::size_t piece_bytes_ = 0;
    std::size_t used_ = 0;
    mmsghdr headers_[batch_max];
    iovec pieces_[batch_max];
    wire_address names_[batch_max];
};

// Borrows the thread's room. A callback that runs another loop on this thread finds none and makes
// its own.
class borrowed_room {
  public:
    borrowed_room() noexcept : room_(std::move(spare())) {
        try {
            if (room_ == nullptr) room_ = std::make_unique<receive_room>();
        } catch (const std::bad_alloc&) {
            room_ = nullptr;
        }
    }
    borrowed_room(const borrowed_room&) = delete;
    borrowed_room& operator=(const borrowed_room&) = delete;
    ~borrowed_room() { spare() = std::move(room_); }
    [[nodiscard]] receive_room* get() const noexcept { return room_.get(); }  // null: no memory

  private:
    static std::unique_ptr<receive_room>& spare() noexcept {
        thread_local std::unique_ptr<receive_room> room;
        return room;
    }
    std::unique_ptr<receive_room> room_;
};

bool is_ip(const datagram_state& t) noexcept {
    return t.family == AF_INET || t.family == AF_INET6;
}

// No more datagrams are for this protocol. In a child that a callback has forked, the rest of the
// batch is its parent's.
bool deaf(datagram_state& t) noexcept {
    return t.closing || t.connection_lost_count > 0 || t.protocol == nullptr || !io_usable(t);
}

bool wants_reading(datagram_state& t) noexcept {
    return t.started && !t.paused && t.held == nullptr && !deaf(t);
}

void hold(datagram_state& t, PyObject* data, PyObject* address) noexcept {
    ref pair = ref::steal(PyTuple_Pack(2, data, address));
    if (t.held == nullptr) t.held = PyList_New(0);
    if (!pair || t.held == nullptr || PyList_Append(t.held, pair.get()) < 0)
        (void)datagram_callback_failed(t, "a received datagram could not be kept");
}

int schedule_held(datagram_state& t) noexcept {
    ref deliver = ref::steal(PyObject_GetAttrString(object_of(t), "_deliver_held"));
    if (!deliver) return -1;
    return loop_call_soon(loop_of(t), deliver.get(), nullptr, t.context);
}

// True: the run ends, nothing more is to be called.
bool deliver(datagram_state& t, PyObject* data, PyObject* address) noexcept {
    ref protocol = ref::share(t.protocol);
    PyObject* const arguments[3] = {protocol.get(), data, address};
    ref done = ref::steal(
        PyObject_VectorcallMethod(datagram_words().datagram_received, arguments, 3, nullptr));
    return !done && datagram_callback_failed(t, "Exception in callback datagram_received()");
}

void read_failed(datagram_state& t) noexcept {
    if (datagram_fatal_error(t, "Fatal read error on datagram transport") < 0)
        (void)datagram_callback_failed(t, "Fatal read error on datagram transport");
}

void receive_error(datagram_state& t, int error) noexcept {
    if (error == EAGAIN || error == EINTR) return;
    if (!datagram_lost_descriptor(t, error)) datagram_tell_failure(t, error);
}

void make_cache(datagram_state& t) noexcept {
    try {
        t.known = std::make_unique<address_cache>(t.connected ? 1 : address_cache::places_max);
    } catch (const std::bad_alloc&) {
        t.known = nullptr;  // it goes without
    }
}

void deliver_batch(datagram_state& t, receive_room& room, std::size_t count) noexcept {
    if (t.known == nullptr) make_cache(t);
    context_scope scope(t.context);
    t.delivering = true;
    bool run_ends = false;
    driver& io = io_of(loop_of(t));
    std::int64_t flushed_ns = io.now_ns();
    for (std::size_t i = 0; i < count && !deaf(t); ++i) {
        ref data = ref::steal(
            PyBytes_FromStringAndSize(room.data(i), static_cast<Py_ssize_t>(room.size(i))));
        ref address = ref::steal(!data                ? nullptr
                                 : t.known != nullptr ? t.known->object_of(room.from(i))
                                                      : address_object(room.from(i)));
        if (!address) {
            read_failed(t);
            break;
        }
        if (run_ends || t.paused) {
            hold(t, data.get(), address.get());
        } else {
            run_ends = deliver(t, data.get(), address.get());
        }
        if (t.out.empty() || t.blocked || io.now_ns() - flushed_ns < answer_delay_ns) continue;
        datagram_flush(t);
        flushed_ns = io.now_ns();
    }
    t.delivering = false;
    // Those that a pause held back wait for resume_reading(), those that the end of a run did for
    // the next run.
    if (t.held != nullptr && !t.paused && !deaf(t) && schedule_held(t) < 0) read_failed(t);
}

void receive_batch(datagram_state& t) noexcept {
    borrowed_room room;
    if (room.get() == nullptr) {
        PyErr_NoMemory();
        read_failed(t);
        return;
    }
    const std::span<mmsghdr> headers = room.get()->headers(is_ip(t));
    const int count = io_of(loop_of(t)).try_recvmmsg(t.fd, headers);
    if (count < 0) {
        receive_error(t, -count);
        return;
    }
    room.get()->note_used(static_cast<std::size_t>(count));
    deliver_batch(t, *room.get(), static_cast<std::size_t>(count));
}

// A family whose addresses only the socket module knows: one datagram a poll.
void receive_by_socket(datagram_state& t) noexcept {
    ref socket = ref::share(t.socket);
    ref size = ref::steal(PyLong_FromSize_t(other_bytes));
    ref pair = ref::steal(
        size ? PyObject_CallMethodOneArg(socket.get(), datagram_words().recvfrom, size.get())
             : nullptr);
    if (pair && PyTuple_Check(pair.get()) && PyTuple_GET_SIZE(pair.get()) == 2) {
        context_scope scope(t.context);
        (void)deliver(t, PyTuple_GET_ITEM(pair.get(), 0), PyTuple_GET_ITEM(pair.get(), 1));
        return;
    }
    ref error = bridge::take_exception();
    if (error && PyErr_GivenExceptionMatches(error.get(), PyExc_OSError)) {
        ref number = ref::steal(PyObject_GetAttrString(error.get(), "errno"));
        const long value = number && PyLong_Check(number.get()) ? PyLong_AsLong(number.get()) : 0;
        PyErr_Clear();
        receive_error(t, value > 0 ? static_cast<int>(value) : EIO);
        return;
    }
    if (error) {
        bridge::restore_exception(std::move(error));
    } else {
        PyErr_SetString(PyExc_TypeError, "recvfrom() did not return data and an address");
    }
    read_failed(t);
}

}  // namespace

void datagram_on_readable(operation& op, const completion& result) noexcept {
    auto& t = *reinterpret_cast<datagram_state*>(reinterpret_cast<char*>(&op) -
                                                 offsetof(datagram_state, readable));
    ref self = ref::steal(object_of(t));  // the reference of the poll that ended
    if (!wants_reading(t)) return;
    if (result.result < 0) {
        if (result.result != -ECANCELED) receive_error(t, -result.result);
    } else if (t.family == AF_UNIX || is_ip(t)) {
        receive_batch(t);
    } else {
        receive_by_socket(t);
    }
    datagram_update_reading(t);
}

void datagram_update_reading(datagram_state& t) noexcept {
    if (t.readable.in_flight() || !wants_reading(t)) return;
    t.readable.prepare_poll(t.fd, poll_in);
    Py_INCREF(object_of(t));
    io_of(loop_of(t)).submit(t.readable);
}

int datagram_resume_reading(datagram_state& t) noexcept {
    if (t.closing || !t.paused) return 0;
    t.paused = false;
    if (t.held != nullptr) return schedule_held(t);
    datagram_update_reading(t);
    return 0;
}

PyObject* datagram_deliver_held(PyObject* self, PyObject*) noexcept {
    datagram_state& t = datagram_of(self);
    ref kept = ref::steal(t.paused ? nullptr : std::exchange(t.held, nullptr));
    if (!kept) Py_RETURN_NONE;
    bool run_ends = false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(kept.get()) && !deaf(t); ++i) {
        PyObject* pair = PyList_GET_ITEM(kept.get(), i);
        PyObject* data = PyTuple_GET_ITEM(pair, 0);
        PyObject* address = PyTuple_GET_ITEM(pair, 1);
        if (run_ends || t.paused) {
            hold(t, data, address);
        } else {
            run_ends = deliver(t, data, address);
        }
    }
    if (t.held != nullptr && !t.paused && !deaf(t) && schedule_held(t) < 0) return nullptr;
    datagram_update_reading(t);
    Py_RETURN_NONE;
}

}  // namespace ringloop::python
