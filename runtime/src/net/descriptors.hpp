// descriptors: open descriptors as a message carries them (SCM_RIGHTS). Thread: the scheduler's.
#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

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

}  // namespace ringloop::net::detail
