// Aligned memory. See the header.
#include "ringloop/fs/aligned_buffer.hpp"

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <stdexcept>
#include <string>

namespace ringloop::fs {

aligned_buffer::aligned_buffer(std::size_t size, std::size_t alignment) {
    if (!std::has_single_bit(alignment))
        throw std::invalid_argument("ringloop: the alignment is " + std::to_string(alignment) +
                                    "; it must be a power of two");
    if (size == 0 || size > SIZE_MAX - alignment)
        throw std::invalid_argument("ringloop: an aligned buffer of " + std::to_string(size) +
                                    " bytes");
    size_ = (size + alignment - 1) / alignment * alignment;
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(alignment, size_)));
    if (memory_ == nullptr) throw std::bad_alloc();
}

void aligned_buffer::release::operator()(std::byte* memory) const noexcept {
    std::free(memory);
}

}  // namespace ringloop::fs
