// datagram_queue: see the header.
#include "datagram_queue.hpp"

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace ringloop::python {

static_assert(std::is_trivially_copyable_v<queued_datagram>);

bool datagram_queue::make_room() noexcept {
    if (head_ > 0 && head_ >= capacity_ / 2) {
        std::memmove(static_cast<void*>(items_), items_ + head_, size() * sizeof *items_);
        count_ -= head_;
        head_ = 0;
        return true;
    }
    const std::size_t wanted = std::max<std::size_t>(8, capacity_ * 2);
    void* memory = PyMem_Realloc(items_, wanted * sizeof *items_);
    if (memory == nullptr) {
        PyErr_NoMemory();
        return false;
    }
    items_ = static_cast<queued_datagram*>(memory);
    capacity_ = wanted;
    return true;
}

bool datagram_queue::push(PyObject* data, PyObject* address, const wire_address& to) noexcept {
    if (count_ == capacity_ && !make_room()) return false;
    queued_datagram& item = items_[count_++];
    item.data = Py_NewRef(data);
    item.address = Py_XNewRef(address);
    item.to = to;
    bytes_ += static_cast<std::size_t>(PyBytes_GET_SIZE(data)) + datagram_header_bytes;
    return true;
}

void datagram_queue::pop(std::size_t count) noexcept {
    for (; count > 0; --count) {
        const queued_datagram item = items_[head_++];
        bytes_ -= static_cast<std::size_t>(PyBytes_GET_SIZE(item.data)) + datagram_header_bytes;
        Py_DECREF(item.data);
        Py_XDECREF(item.address);
    }
    if (head_ != count_) return;
    head_ = count_ = 0;
    if (capacity_ <= kept) return;
    PyMem_Free(items_);
    items_ = nullptr;
    capacity_ = 0;
}

}  // namespace ringloop::python
