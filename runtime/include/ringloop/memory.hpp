// memory: what native code has from the system now, in bytes and blocks, by kind.
//
// Counted where a block is taken from the allocator or mapped, and where it goes back, so what is
// in use costs nothing: coroutine frames (with those that their pool keeps for reuse), receive
// pools, copies of received bytes, memory of shared handles, results of kernels, and what takes
// part by allocate() or allocator<T>. Not counted: the containers of schedulers and drivers, stacks
// of threads, what the kernel maps for a ring, other libraries.
//
//     std::vector<float, ringloop::memory::allocator<float>> samples;  // in the account
//
// Thread: any, no lock; sums that are read beside others' work may be of slightly different times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>

namespace ringloop::memory {

enum class kind : std::uint8_t {
    frames,
    receive_pools,
    receive_copies,
    shared_handles,
    kernel_results,
    other
};
inline constexpr std::size_t kind_count = 6;
[[nodiscard]] const char* name(kind) noexcept;

struct usage {
    std::int64_t bytes = 0;
    std::int64_t blocks = 0;
};
[[nodiscard]] usage used(kind) noexcept;
// The part of `frames` that is free at the moment: kept by the threads' pools for reuse.
[[nodiscard]] usage kept_frames() noexcept;

// A block that somebody else allocates: took() after it is there, gave_back() before it goes, with
// the same numbers.
void took(kind, const void* block, std::size_t bytes) noexcept;
void gave_back(kind, const void* block, std::size_t bytes) noexcept;

// Like operator new and delete. Throws std::bad_alloc.
[[nodiscard]] void* allocate(std::size_t bytes, kind what = kind::other);
void release(void* block, std::size_t bytes, kind what = kind::other) noexcept;

// For containers.
template <class T>
struct allocator {
    using value_type = T;
    allocator() noexcept = default;
    template <class U>
    allocator(const allocator<U>&) noexcept {}

    [[nodiscard]] T* allocate(std::size_t count) {
        static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
        if (count > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_alloc();
        return static_cast<T*>(memory::allocate(count * sizeof(T)));
    }
    void deallocate(T* block, std::size_t count) noexcept {
        memory::release(block, count * sizeof(T));
    }
    template <class U>
    bool operator==(const allocator<U>&) const noexcept {
        return true;
    }
};

// The one who is told of each block, from the thread that took it or gives it back; null: nobody.
using observer = void (*)(const void* block, std::size_t bytes, bool taken) noexcept;
void observe(observer told) noexcept;

}  // namespace ringloop::memory
