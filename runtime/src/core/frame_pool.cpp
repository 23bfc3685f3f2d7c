// The cold half of the frame pool: a thread's lists are opened by its first free and given back
// when it ends. See detail/frame_pool.hpp for the rules.
#include "ringloop/detail/frame_pool.hpp"

#include <mutex>

#include "ringloop/memory.hpp"

namespace ringloop::detail {

thread_local constinit frame_pool frames{};

namespace {

constinit std::mutex open_mutex;
constinit frame_pool* first_open = nullptr;

void empty_lists(frame_pool& pool) noexcept {
    for (std::size_t i = 0; i < frame_pool::class_count; ++i) {
        frame_pool::list& list = pool.lists[i];
        list.room.store(0, std::memory_order_relaxed);
        while (frame_pool::block* block = list.first) {
            list.first = block->next;
            frame_to_heap(block, frame_pool::size_of_class(i));
        }
    }
}

// Lives from a thread's first free to its end.
struct closer {
    closer() noexcept {
        for (std::size_t i = 0; i < frame_pool::class_count; ++i)
            frames.lists[i].room.store(frame_pool::room_of_class(i), std::memory_order_relaxed);
        const std::lock_guard lock(open_mutex);
        frames.next = first_open;
        if (first_open != nullptr) first_open->previous = &frames;
        first_open = &frames;
    }
    ~closer() {
        {
            const std::lock_guard lock(open_mutex);
            (frames.previous != nullptr ? frames.previous->next : first_open) = frames.next;
            if (frames.next != nullptr) frames.next->previous = frames.previous;
        }
        empty_lists(frames);
    }
    closer(const closer&) = delete;
    closer& operator=(const closer&) = delete;
};

}  // namespace

void* frame_from_heap(std::size_t size) {
    return memory::allocate(size, memory::kind::frames);
}

void frame_to_heap(void* block, std::size_t size) noexcept {
    memory::release(block, size, memory::kind::frames);
}

void frame_pool::give_back_slow(std::size_t index, void* memory) noexcept {
    if (opened) {
        frame_to_heap(memory, size_of_class(index));
        return;
    }
    opened = true;
    static thread_local closer lists_of_this_thread;
    static_cast<void>(lists_of_this_thread);
    free_frame(memory, size_of_class(index));
}

}  // namespace ringloop::detail

ringloop::memory::usage ringloop::memory::kept_frames() noexcept {
    using detail::frame_pool;
    usage kept;
    const std::lock_guard lock(detail::open_mutex);
    for (const frame_pool* pool = detail::first_open; pool != nullptr; pool = pool->next) {
        for (std::size_t i = 0; i < frame_pool::class_count; ++i) {
            const std::int64_t blocks =
                std::int64_t{frame_pool::room_of_class(i)} -
                std::int64_t{pool->lists[i].room.load(std::memory_order_relaxed)};
            kept.blocks += blocks;
            kept.bytes += blocks * static_cast<std::int64_t>(frame_pool::size_of_class(i));
        }
    }
    return kept;
}
