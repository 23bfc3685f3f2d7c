// piece_list: a caller's list of spans as the kernel wants it. Few need no memory of their own.
//
// The kernel takes at most IOV_MAX (1024) at once: the rest of a longer list is not in it. Plain
// memory, for any thread; does not move, for an operation points to it.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstddef>
#include <span>
#include <vector>

namespace ringloop::detail {

class piece_list {
  public:
    template <class Byte>
    explicit piece_list(std::span<const std::span<Byte>> list) {
        const std::size_t count = std::min<std::size_t>(list.size(), IOV_MAX);
        if (count > few_.size()) many_.resize(count);
        iovec* const to = many_.empty() ? few_.data() : many_.data();
        for (std::size_t i = 0; i < count; ++i) {
            // NOLINTNEXTLINE: iovec is not const
            to[i] = {const_cast<std::byte*>(list[i].data()), list[i].size()};
        }
        pieces_ = {to, count};
    }
    piece_list(const piece_list&) = delete;
    piece_list& operator=(const piece_list&) = delete;

    // What is left.
    [[nodiscard]] std::span<iovec> pieces() const noexcept { return pieces_; }
    // The first `count` bytes are done with, and with them pieces that have none left.
    void consume(std::size_t count) noexcept {
        while (!pieces_.empty() && count >= pieces_.front().iov_len) {
            count -= pieces_.front().iov_len;
            pieces_ = pieces_.subspan(1);
        }
        if (count == 0) return;
        iovec& partly = pieces_.front();
        partly = {static_cast<std::byte*>(partly.iov_base) + count, partly.iov_len - count};
    }

  private:
    std::array<iovec, 8> few_;
    std::vector<iovec> many_;
    std::span<iovec> pieces_;
};

}  // namespace ringloop::detail
