// buffer_lease: bytes that arrived, on loan until the lease ends.
//
// Most leases are a buffer of the driver's receive pool and give it back by their destructor: keep
// them short. When the pool is nearly empty the stream hands out a private copy instead, so that a
// slow holder starves nobody. Move-only; thread: the scheduler's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "ringloop/memory.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop {

namespace detail {
struct copy_end {
    std::size_t size = 0;
    void operator()(std::byte* copy) const noexcept {
        memory::release(copy, size, memory::kind::receive_copies);
    }
};
}  // namespace detail

class buffer_lease {
  public:
    buffer_lease() noexcept = default;
    buffer_lease(scheduler& home, buffer_id id, std::span<const std::byte> bytes) noexcept
        : home_(&home), bytes_(bytes), id_(id) {}
    explicit buffer_lease(std::span<const std::byte> to_copy);
    buffer_lease(buffer_lease&& other) noexcept
        : home_(other.home_),
          copy_(std::move(other.copy_)),
          bytes_(std::exchange(other.bytes_, {})),
          id_(std::exchange(other.id_, no_buffer)),
          handed_out_(std::exchange(other.handed_out_, false)) {}
    buffer_lease& operator=(buffer_lease&& other) noexcept {
        std::swap(home_, other.home_);
        std::swap(copy_, other.copy_);
        std::swap(bytes_, other.bytes_);
        std::swap(id_, other.id_);
        std::swap(handed_out_, other.handed_out_);
        return *this;
    }
    ~buffer_lease() { release(); }

    // False: the end of the stream.
    [[nodiscard]] explicit operator bool() const noexcept { return !bytes_.empty(); }
    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::string_view text() const noexcept {
        return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()};
    }
    [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
    // Drops the first `count` bytes.
    void consume(std::size_t count) noexcept { bytes_ = bytes_.subspan(count); }
    // Gives the bytes back early.
    void release() noexcept {
        if (id_ != no_buffer)
            home_->give_back(std::exchange(id_, no_buffer), std::exchange(handed_out_, false));
        copy_.reset();
        bytes_ = {};
    }

    // Called by the stream when the lease goes to the reader: it counts as on loan from here.
    void hand_out() noexcept {
        if (id_ == no_buffer) return;
        handed_out_ = true;
        home_->count_lease();
    }

  private:
    scheduler* home_ = nullptr;
    std::unique_ptr<std::byte[], detail::copy_end> copy_;
    std::span<const std::byte> bytes_;
    buffer_id id_ = no_buffer;
    bool handed_out_ = false;
};

inline buffer_lease::buffer_lease(std::span<const std::byte> to_copy)
    : copy_(static_cast<std::byte*>(memory::allocate(to_copy.size(), memory::kind::receive_copies)),
            detail::copy_end{to_copy.size()}) {
    std::copy(to_copy.begin(), to_copy.end(), copy_.get());
    bytes_ = {copy_.get(), to_copy.size()};
}

}  // namespace ringloop
