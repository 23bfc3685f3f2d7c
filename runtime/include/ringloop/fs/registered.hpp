// registered_memory: memory for reads and writes of files that the kernel pins once, instead of for
// each of them. It pays for large pieces, around the page cache (O_DIRECT) most: DECISIONS.md, 27.
//
//     fs::registered_memory memory(32 * 65536);
//     auto file = co_await fs::open("data", O_RDONLY | O_DIRECT);
//     co_await file.read_at(memory.part(0, 65536), 0);
//
// Where it cannot be registered (the epoll driver, a low RLIMIT_MEMLOCK, more than 64 of them on
// one scheduler) it is plain memory, and everything works as with that.
// Owns the memory, which begins at a page and is not initialised. Does not move; ends after the
// awaits that use it. Thread: that of the scheduler it was made on, for files of that scheduler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringloop/detail/resident.hpp"
#include "ringloop/fs/aligned_buffer.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::fs {

// A part of it, for file::read_at() and write_at().
class registered_span {
  public:
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return bytes_; }
    [[nodiscard]] registered_span first(std::size_t size) const noexcept {
        return {bytes_.first(size), home_, number_};
    }
    // For drivers: operation::registered.
    [[nodiscard]] std::int8_t number() const noexcept { return number_; }
    [[nodiscard]] const scheduler* home() const noexcept { return home_; }

  private:
    friend class registered_memory;
    registered_span(std::span<std::byte> bytes, const scheduler* home, std::int8_t number) noexcept
        : bytes_(bytes), home_(home), number_(number) {}
    std::span<std::byte> bytes_;
    const scheduler* home_;
    std::int8_t number_;
};

class registered_memory : private ringloop::detail::resident {
  public:
    // On the running scheduler; `size` is rounded up to whole pages. Throws std::bad_alloc,
    // std::invalid_argument for no bytes.
    explicit registered_memory(std::size_t size);
    ~registered_memory();
    registered_memory(const registered_memory&) = delete;
    registered_memory& operator=(const registered_memory&) = delete;

    // std::out_of_range if it has no such part.
    [[nodiscard]] registered_span part(std::size_t offset, std::size_t size) const;
    [[nodiscard]] std::size_t size() const noexcept { return memory_.size(); }
    // Else it is plain memory.
    [[nodiscard]] bool is_registered() const noexcept { return number_ >= 0; }

  private:
    void leave() noexcept;
    scheduler& home_;
    aligned_buffer memory_;
    std::int8_t number_ = -1;
};

}  // namespace ringloop::fs
