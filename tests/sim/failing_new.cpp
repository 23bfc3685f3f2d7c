// Replaces the global allocation functions of the simulated suite.
#include "failing_new.hpp"

#include <cstdlib>
#include <new>

#include "ringloop/testing/kernel_memory.hpp"

namespace {

struct state {
    bool on = false;
    bool failed = false;
    std::uint64_t asked = 0;
    std::uint64_t fails = 0;
    std::int64_t balance = 0;
};
thread_local constinit state now;

void* take(std::size_t size, std::size_t alignment) {
    if (now.on && !ringloop::testing::kernel_memory::in_use() && ++now.asked == now.fails) {
        now.failed = true;
        throw std::bad_alloc();
    }
    const std::size_t whole = (size + alignment - 1) / alignment * alignment;
    void* const block = alignment <= __STDCPP_DEFAULT_NEW_ALIGNMENT__
                            ? std::malloc(size == 0 ? 1 : size)
                            : std::aligned_alloc(alignment, whole == 0 ? alignment : whole);
    if (block == nullptr) throw std::bad_alloc();
    now.balance += now.on;
    return block;
}

void give(void* block) noexcept {
    now.balance -= now.on && block != nullptr;
    std::free(block);
}

}  // namespace

void* operator new(std::size_t size) {
    return take(size, 1);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
    return take(size, static_cast<std::size_t>(alignment));
}
// Else a sanitizer's own are taken, whose blocks our delete does not know.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    try {
        return take(size, 1);
    } catch (const std::bad_alloc&) {
        return nullptr;
    }
}
void operator delete(void* block, const std::nothrow_t&) noexcept {
    give(block);
}
void operator delete(void* block) noexcept {
    give(block);
}
void operator delete(void* block, std::size_t) noexcept {
    give(block);
}
void operator delete(void* block, std::align_val_t) noexcept {
    give(block);
}
void operator delete(void* block, std::size_t, std::align_val_t) noexcept {
    give(block);
}

namespace sim {

memory_shortage::memory_shortage(std::uint64_t fails) noexcept {
    now = {.on = true, .fails = fails};
}

memory_shortage::~memory_shortage() {
    now.on = false;
}

bool memory_shortage::has_failed() noexcept {
    return now.on && now.failed;
}

std::uint64_t memory_shortage::asked() noexcept {
    return now.asked;
}

std::int64_t memory_shortage::balance() noexcept {
    return now.balance;
}

}  // namespace sim
