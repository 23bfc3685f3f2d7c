// kcmp(). Contract in same_file.hpp. glibc has no function for it.
#include "ringloop/detail/same_file.hpp"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace ringloop::detail {
namespace {

int compare(int type, int fd, unsigned long other) noexcept {
    const pid_t self = ::getpid();
    const long answer =
        ::syscall(SYS_kcmp, self, self, type, static_cast<unsigned long>(fd), other);
    return answer < 0 ? -errno : answer == 0;
}

}  // namespace

int same_file(int one, int other) noexcept {
    return compare(KCMP_FILE, one, static_cast<unsigned long>(other));
}

int same_as_epoll_entry(int fd, int epoll_fd, int entry, unsigned nth) noexcept {
    kcmp_epoll_slot slot = {};
    slot.efd = static_cast<__u32>(epoll_fd);
    slot.tfd = static_cast<__u32>(entry);
    slot.toff = nth;
    const int answer = compare(KCMP_EPOLL_TFD, fd, reinterpret_cast<unsigned long>(&slot));
    return answer == -ENOENT ? 0 : answer;  // the set has changed since
}

}  // namespace ringloop::detail
