// aligned_buffer: memory that begins at a multiple of a power of two. Plain memory, for any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace ringloop::fs {

// Memory that begins at a multiple of `alignment`, a power of two, and is that much in size rounded
// up. Uninitialised. Move-only. Throws std::invalid_argument, std::bad_alloc.
class aligned_buffer {
  public:
    aligned_buffer() noexcept = default;
    explicit aligned_buffer(std::size_t size, std::size_t alignment = 4096);
    [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), size_}; }
    [[nodiscard]] std::size_t size() const noexcept { return size_; }

  private:
    struct release {
        void operator()(std::byte* memory) const noexcept;
    };
    std::unique_ptr<std::byte[], release> memory_;
    std::size_t size_ = 0;
};

}  // namespace ringloop::fs
