// same_file: whether descriptors of this process share one open file description, so that reading
// from one takes what the other would have read. For diagnostics.
//
// Thread: any; nothing is allocated. 1, 0, or a negated errno: -EBADF, or -ENOSYS and -EPERM where
// the kernel or a sandbox does not tell (kcmp).
#pragma once

namespace ringloop::detail {

int same_file(int one, int other) noexcept;
// Whether the epoll set `epoll_fd` holds the file of `fd` as its entry `entry` (the number that it
// was added by, which may be another file's by now), the `nth` of that number.
int same_as_epoll_entry(int fd, int epoll_fd, int entry, unsigned nth) noexcept;

}  // namespace ringloop::detail
