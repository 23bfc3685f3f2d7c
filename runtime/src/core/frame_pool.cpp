// The cold half of the frame pool: a thread's lists are opened by its first free and given back
// when it ends. See detail/frame_pool.hpp for the rules.
#include "ringloop/detail/frame_pool.hpp"

namespace ringloop::detail {

thread_local constinit frame_pool frames{};

namespace {

void empty_lists(frame_pool& pool) noexcept {
    for (frame_pool::list& list : pool.lists) {
        list.room = 0;
        while (frame_pool::block* block = list.first) {
            list.first = block->next;
            ::operator delete(block);
        }
    }
}

// Lives from a thread's first free to its end.
struct closer {
    closer() noexcept {
        for (std::size_t i = 0; i < frame_pool::class_count; ++i)
            frames.lists[i].room = static_cast<std::uint32_t>(frame_pool::bytes_kept_max /
                                                              ((i + 1) * frame_pool::granularity));
    }
    ~closer() { empty_lists(frames); }
    closer(const closer&) = delete;
    closer& operator=(const closer&) = delete;
};

}  // namespace

void frame_pool::give_back_slow(std::size_t index, void* memory) noexcept {
    if (opened) {
        ::operator delete(memory);
        return;
    }
    opened = true;
    static thread_local closer lists_of_this_thread;
    static_cast<void>(lists_of_this_thread);
    free_frame(memory, (index + 1) * granularity);
}

}  // namespace ringloop::detail
