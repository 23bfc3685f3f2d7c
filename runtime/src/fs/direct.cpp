// O_DIRECT: statx's answer.
#include "ringloop/fs/direct.hpp"

#include <cerrno>
#include <cstring>

#include "ringloop/error.hpp"

namespace ringloop::fs {
namespace {

// Of Linux 6.1, and so newer than the C library's headers: where statx puts it.
constexpr unsigned statx_direct = 0x2000;
constexpr std::size_t memory_place = 0x98;
constexpr std::size_t offset_place = 0x9c;
static_assert(sizeof(struct statx) >= offset_place + sizeof(std::uint32_t));

class direct_await : public ringloop::detail::operation_await {
  public:
    explicit direct_await(int fd) noexcept {
        op_.prepare_statx(fd, "", AT_EMPTY_PATH, statx_direct, &status_);
    }
    direct_alignment await_resume() const {
        static_cast<void>(finish("ask for a file's alignment"));
        direct_alignment found;
        if ((status_.stx_mask & statx_direct) == 0) return found;
        const auto* const raw = reinterpret_cast<const std::byte*>(&status_);
        std::memcpy(&found.memory, raw + memory_place, sizeof found.memory);
        std::memcpy(&found.offset, raw + offset_place, sizeof found.offset);
        if (found.offset == 0) ringloop::detail::throw_error(EINVAL, "a file without O_DIRECT");
        found.known = true;
        return found;
    }

  private:
    struct statx status_ {};
};

}  // namespace

task<direct_alignment> direct_alignment_of(const file& opened) {
    co_return co_await direct_await(opened.native_handle());
}

}  // namespace ringloop::fs
