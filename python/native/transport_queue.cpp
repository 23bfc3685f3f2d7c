// Piece lists and the free list of write blocks. GIL held.
#include "transport_queue.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <new>

namespace ringloop::python {

long outgoing_live = 0;

namespace {

constexpr std::size_t merge_bytes = 8192;      // size of a block of small pieces
constexpr std::size_t merge_piece_max = 1024;  // larger pieces are cheaper as a piece of their own
constexpr int free_list_max = 256;

outgoing* free_list = nullptr;
int free_count = 0;

}  // namespace

bool piece_list::grow() noexcept {
    const std::size_t wanted = std::size_t{capacity_} * 2;
    auto* pieces = static_cast<iovec*>(PyMem_Malloc(wanted * sizeof(iovec)));
    auto* owners = static_cast<PyObject**>(PyMem_Malloc(wanted * sizeof(PyObject*)));
    if (pieces == nullptr || owners == nullptr) {
        PyMem_Free(pieces);
        PyMem_Free(owners);
        PyErr_NoMemory();
        return false;
    }
    std::copy_n(pieces_, count_, pieces);
    std::copy_n(owners_, count_, owners);
    if (pieces_ != inline_pieces_) {
        PyMem_Free(pieces_);
        PyMem_Free(owners_);
    }
    pieces_ = pieces;
    owners_ = owners;
    capacity_ = static_cast<std::uint32_t>(wanted);
    return true;
}

bool piece_list::add(PyObject* owner, const char* data, std::size_t size) noexcept {
    if (count_ == capacity_ && !grow()) {
        Py_DECREF(owner);
        return false;
    }
    pieces_[count_] = {const_cast<char*>(data), size};
    owners_[count_] = owner;
    ++count_;
    merge_room_ = 0;
    return true;
}

bool piece_list::merge(const char* data, std::size_t size) noexcept {
    if (size > merge_piece_max || count_ < inline_max) return false;
    if (merge_room_ < size) {
        PyObject* block = PyBytes_FromStringAndSize(nullptr, merge_bytes);
        if (block == nullptr) {
            PyErr_Clear();  // add() needs less memory
            return false;
        }
        if (!add(block, PyBytes_AS_STRING(block), 0)) {
            PyErr_Clear();
            return false;
        }
        merge_room_ = merge_bytes;
    }
    iovec& last = pieces_[count_ - 1];
    std::memcpy(static_cast<char*>(last.iov_base) + last.iov_len, data, size);
    last.iov_len += size;
    merge_room_ -= static_cast<std::uint32_t>(size);
    return true;
}

void piece_list::consume(std::size_t bytes) noexcept {
    while (head_ < count_) {
        iovec& piece = pieces_[head_];
        if (piece.iov_len > bytes) {
            piece.iov_base = static_cast<char*>(piece.iov_base) + bytes;
            piece.iov_len -= bytes;
            merge_room_ = 0;
            return;
        }
        bytes -= piece.iov_len;
        Py_DECREF(owners_[head_]);
        ++head_;
    }
    assert(bytes == 0);
    clear();
}

void piece_list::clear() noexcept {
    while (head_ < count_) Py_DECREF(owners_[head_++]);
    head_ = 0;
    count_ = 0;
    merge_room_ = 0;
    if (pieces_ != inline_pieces_) {
        PyMem_Free(pieces_);
        PyMem_Free(owners_);
        pieces_ = inline_pieces_;
        owners_ = inline_owners_;
        capacity_ = inline_max;
    }
}

outgoing* take_outgoing(transport_state& owner, operation::handler on_sent) noexcept {
    outgoing* block = free_list;
    if (block != nullptr) {
        free_list = block->next_free;
        --free_count;
    } else {
        block = new (std::nothrow) outgoing(on_sent);
        if (block == nullptr) {
            PyErr_NoMemory();
            return nullptr;
        }
    }
    block->owner = &owner;
    ++outgoing_live;
    return block;
}

void give_outgoing(outgoing* block) noexcept {
    assert(!block->send.in_flight());
    block->lists[0].clear();
    block->lists[1].clear();
    block->bytes = 0;
    block->owner = nullptr;
    --outgoing_live;
    if (free_count == free_list_max) {
        delete block;
        return;
    }
    block->next_free = free_list;
    free_list = block;
    ++free_count;
}

}  // namespace ringloop::python
