// non_blocking: a descriptor does not block while this lives. For the calls that heed no flag of
// their own but the descriptor's mode, which is the user's: accept4, connect.
#pragma once

#include <fcntl.h>

namespace ringloop {

class non_blocking {
  public:
    explicit non_blocking(int fd) noexcept : fd_(fd), flags_(::fcntl(fd, F_GETFL)) {
        if (was_blocking()) ::fcntl(fd_, F_SETFL, flags_ | O_NONBLOCK);
    }
    ~non_blocking() {
        if (was_blocking()) ::fcntl(fd_, F_SETFL, flags_);
    }
    non_blocking(const non_blocking&) = delete;
    non_blocking& operator=(const non_blocking&) = delete;

  private:
    [[nodiscard]] bool was_blocking() const noexcept {
        return flags_ >= 0 && (flags_ & O_NONBLOCK) == 0;
    }
    int fd_;
    int flags_;
};

}  // namespace ringloop
