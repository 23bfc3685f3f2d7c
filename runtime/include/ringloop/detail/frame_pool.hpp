// Memory of coroutine frames: free lists by size, one set per thread.
//
// Rules
//  1. Every block is its own allocation of the global heap, so a block freed on another thread than
//     the one that took it simply joins that thread's list.
//  2. A list keeps at most `bytes_kept_max` bytes; what exceeds it goes back to the heap. A thread
//     that ends gives back its lists; frames freed on it even later go straight to the heap.
//  3. Under AddressSanitizer nothing is kept, so that use after free is seen.
//  4. What comes from the heap and goes back to it is counted (memory.hpp). What the lists keep is
//     read from their `room`, by any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "ringloop/detail/hot_thread_local.hpp"

namespace ringloop::detail {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool frames_are_pooled = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
inline constexpr bool frames_are_pooled = false;
#else
inline constexpr bool frames_are_pooled = true;
#endif
#else
inline constexpr bool frames_are_pooled = true;
#endif

struct frame_pool {
    static constexpr std::size_t granularity = 64;  // bytes
    static constexpr std::size_t class_count = 32;  // frames up to 2 KiB
    static constexpr std::size_t bytes_kept_max = 256 * 1024;

    struct block {
        block* next;
    };
    struct list {
        block* first;
        // Blocks that may still be kept; 0 until the thread's first free. Others read it.
        std::atomic<std::uint32_t> room;

        // By the owner, whose word it is alone: no locked instruction.
        void change_room(std::uint32_t by) noexcept {
            room.store(room.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
        }
    };
    list lists[class_count];
    frame_pool* previous;  // open pools
    frame_pool* next;
    bool opened;

    [[nodiscard]] static constexpr std::size_t size_of_class(std::size_t index) noexcept {
        return (index + 1) * granularity;
    }
    [[nodiscard]] static constexpr std::uint32_t room_of_class(std::size_t index) noexcept {
        return static_cast<std::uint32_t>(bytes_kept_max / size_of_class(index));
    }

    // Called when a list has no room: opens the thread's pool, or frees the block.
    void give_back_slow(std::size_t index, void* memory) noexcept;
};
RINGLOOP_HOT_TLS extern thread_local constinit frame_pool frames;

[[nodiscard]] void* frame_from_heap(std::size_t size);
void frame_to_heap(void* memory, std::size_t size) noexcept;

[[nodiscard]] inline void* allocate_frame(std::size_t size) {
    const std::size_t index = (size - 1) / frame_pool::granularity;
    if (frames_are_pooled && index < frame_pool::class_count) [[likely]] {
        frame_pool::list& list = frames.lists[index];
        if (frame_pool::block* block = list.first) [[likely]] {
            list.first = block->next;
            list.change_room(1);
            return block;
        }
        size = frame_pool::size_of_class(index);
    }
    return frame_from_heap(size);
}

inline void free_frame(void* memory, std::size_t size) noexcept {
    const std::size_t index = (size - 1) / frame_pool::granularity;
    if (frames_are_pooled && index < frame_pool::class_count) [[likely]] {
        frame_pool::list& list = frames.lists[index];
        if (list.room.load(std::memory_order_relaxed) == 0) [[unlikely]] {
            frames.give_back_slow(index, memory);
            return;
        }
        list.change_room(~0U);
        list.first = ::new (memory) frame_pool::block{list.first};
        return;
    }
    frame_to_heap(memory, size);
}

// Base of promises whose frames come from the pool.
struct pooled_frame {
    static void* operator new(std::size_t size) { return allocate_frame(size); }
    static void operator delete(void* memory, std::size_t size) noexcept {
        free_frame(memory, size);
    }
};

}  // namespace ringloop::detail
