// Pipes of both real bodies: making one, and writing without blocking and without SIGPIPE.
//
// The kernel sends SIGPIPE to the thread that writes to a pipe without a reader, unless it is told
// not to (RWF_NOSIGNAL, Linux 6.18). Where it cannot be told, the signal is held back for the time
// of the call and taken off the thread.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "driver/kernel_driver.hpp"

namespace ringloop {
namespace {

constexpr int rwf_no_signal = 0x100;

// While it lives, no SIGPIPE that this thread causes reaches anybody.
class sigpipe_held_back {
  public:
    sigpipe_held_back() noexcept {
        ::sigemptyset(&only_);
        ::sigaddset(&only_, SIGPIPE);
        sigset_t pending;
        ::sigpending(&pending);
        was_pending_ = ::sigismember(&pending, SIGPIPE) == 1;
        ::pthread_sigmask(SIG_BLOCK, &only_, &before_);
    }
    ~sigpipe_held_back() {
        const int saved = errno;
        const timespec at_once{};
        // One that waited before is somebody else's: it stays, and ours has merged with it.
        if (!was_pending_) {
            while (::sigtimedwait(&only_, nullptr, &at_once) < 0 && errno == EINTR) {
            }
        }
        ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
        errno = saved;
    }
    sigpipe_held_back(const sigpipe_held_back&) = delete;
    sigpipe_held_back& operator=(const sigpipe_held_back&) = delete;

  private:
    sigset_t only_{};
    sigset_t before_{};
    bool was_pending_ = false;
};

ssize_t write_now(int fd, std::span<const iovec> pieces, int flags) noexcept {
    const ssize_t count = ::pwritev2(fd, pieces.data(), static_cast<int>(pieces.size()), -1, flags);
    return count < 0 ? -errno : count;
}

// For descriptors that know no RWF_NOWAIT (terminals): as much as poll() promises.
ssize_t write_if_ready(int fd, std::span<const iovec> pieces) noexcept {
    if (pieces.empty()) return 0;
    pollfd entry{fd, POLLOUT, 0};
    if (::poll(&entry, 1, 0) < 0) return -errno;
    if (entry.revents == 0) return -EAGAIN;
    const std::size_t size = std::min<std::size_t>(pieces[0].iov_len, PIPE_BUF);
    const ssize_t count = ::write(fd, pieces[0].iov_base, size);
    return count < 0 ? -errno : count;
}

}  // namespace

int kernel_driver::make_pipe(int (&ends)[2]) noexcept {
    return ::pipe2(ends, O_CLOEXEC) < 0 ? -errno : 0;
}

ssize_t kernel_driver::try_write(int fd, std::span<const iovec> pieces) noexcept {
    if (knows_no_signal_) {
        const ssize_t result = write_now(fd, pieces, RWF_NOWAIT | rwf_no_signal);
        if (result != -EOPNOTSUPP) return result;
    }
    const sigpipe_held_back quiet;
    const ssize_t result = write_now(fd, pieces, RWF_NOWAIT);
    if (result == -EOPNOTSUPP) return write_if_ready(fd, pieces);
    knows_no_signal_ = false;  // it was that flag, then
    return result;
}

}  // namespace ringloop
