// descriptors: open descriptors as a message carries them (SCM_RIGHTS). Thread: the scheduler's.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "ringloop/error.hpp"
#include "ringloop/net/received_fd.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::net::detail {

inline constexpr std::size_t descriptors_max = 253;  // the kernel's, a message
inline constexpr std::size_t control_size = CMSG_SPACE(descriptors_max * sizeof(int));
struct control_buffer {
    alignas(cmsghdr) std::array<char, control_size> bytes;
};

inline void put_descriptors(msghdr& message, control_buffer& control,
                            std::span<const int> descriptors) {
    if (descriptors.empty()) return;
    control = {};
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
}

inline void take_descriptors(scheduler& home, msghdr& message,
                             std::vector<received_descriptor>& descriptors) {
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
         head = CMSG_NXTHDR(&message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t size = head->cmsg_len - CMSG_LEN(0);
        std::array<int, descriptors_max> numbers{};
        const std::size_t count = std::min(size / sizeof(int), numbers.size());
        std::memcpy(numbers.data(), CMSG_DATA(head), count * sizeof(int));
        try {
            descriptors.reserve(descriptors.size() + count);
        } catch (...) {  // they are this process's already
            for (std::size_t i = 0; i < count; ++i) home.io().close(numbers[i]);
            throw;
        }
        for (std::size_t i = 0; i < count; ++i) descriptors.emplace_back(home, numbers[i]);
    }
}

// One message of bytes with descriptors, in or out. Does not move: the kernel's header points into
// it, and to the caller's bytes.
class descriptor_message {
  public:
    // To be sent. Throws std::invalid_argument for more descriptors than a message takes.
    descriptor_message(std::span<const std::byte> bytes, std::span<const int> descriptors)
        : piece_{const_cast<std::byte*>(bytes.data()), bytes.size()} {  // NOLINT: not const there
        if (descriptors.size() > descriptors_max)
            throw std::invalid_argument("ringloop: more descriptors than a message takes (253)");
        point();
        put_descriptors(message_.msg_hdr, control_, descriptors);
    }
    // To be received: once make_room() was called, before each try.
    explicit descriptor_message(std::span<std::byte> into) : piece_{into.data(), into.size()} {}
    descriptor_message(const descriptor_message&) = delete;
    descriptor_message& operator=(const descriptor_message&) = delete;

    void make_room() noexcept {
        message_ = {};
        point();
        message_.msg_hdr.msg_control = control_.bytes.data();
        message_.msg_hdr.msg_controllen = control_size;
    }
    [[nodiscard]] std::span<mmsghdr> list() noexcept { return {&message_, 1}; }
    [[nodiscard]] std::size_t size() const noexcept { return message_.msg_len; }
    [[nodiscard]] bool is_cut() const noexcept {
        return (message_.msg_hdr.msg_flags & MSG_TRUNC) != 0;
    }
    // Those that came, as this process's own. EMSGSIZE where some found no room.
    void take(scheduler& home, std::vector<received_descriptor>& descriptors) {
        take_descriptors(home, message_.msg_hdr, descriptors);
        if ((message_.msg_hdr.msg_flags & MSG_CTRUNC) != 0)
            ringloop::detail::throw_error(EMSGSIZE, "receive descriptors");
    }

  private:
    void point() noexcept {
        message_.msg_hdr.msg_iov = &piece_;
        message_.msg_hdr.msg_iovlen = 1;
    }
    control_buffer control_;
    iovec piece_;
    mmsghdr message_{};
};

}  // namespace ringloop::net::detail
