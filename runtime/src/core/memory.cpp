// The account of native memory. Contract in memory.hpp.
#include "ringloop/memory.hpp"

#include <atomic>

namespace ringloop::memory {
namespace {

struct account {
    std::atomic<std::int64_t> bytes{0};
    std::atomic<std::int64_t> blocks{0};

    void add(std::int64_t more_bytes, std::int64_t more_blocks) noexcept {
        bytes.fetch_add(more_bytes, std::memory_order_relaxed);
        blocks.fetch_add(more_blocks, std::memory_order_relaxed);
    }
};

constinit account accounts[kind_count];
constinit std::atomic<observer> observing{nullptr};

account& of(kind what) noexcept {
    return accounts[static_cast<std::size_t>(what)];
}

void tell(const void* block, std::size_t bytes, bool taken) noexcept {
    if (const observer told = observing.load(std::memory_order_acquire); told != nullptr)
        told(block, bytes, taken);
}

}  // namespace

const char* name(kind what) noexcept {
    static constexpr const char* names[kind_count] = {
        "frames", "receive_pools", "receive_copies", "shared_handles", "kernel_results", "other"};
    return names[static_cast<std::size_t>(what)];
}

usage used(kind what) noexcept {
    const account& from = of(what);
    return {from.bytes.load(std::memory_order_relaxed),
            from.blocks.load(std::memory_order_relaxed)};
}

void took(kind what, const void* block, std::size_t bytes) noexcept {
    of(what).add(static_cast<std::int64_t>(bytes), 1);
    tell(block, bytes, true);
}

void gave_back(kind what, const void* block, std::size_t bytes) noexcept {
    tell(block, bytes, false);
    of(what).add(-static_cast<std::int64_t>(bytes), -1);
}

void* allocate(std::size_t bytes, kind what) {
    void* const block = ::operator new(bytes);
    took(what, block, bytes);
    return block;
}

void release(void* block, std::size_t bytes, kind what) noexcept {
    if (block == nullptr) return;
    gave_back(what, block, bytes);
    ::operator delete(block);
}

void observe(observer told) noexcept {
    observing.store(told, std::memory_order_release);
}

}  // namespace ringloop::memory
