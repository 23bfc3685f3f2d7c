// Children: see the header.
//
// Between clone() and exec the child runs in our memory, on a stack of its own, while our thread is
// held: it makes raw system calls only, so that neither sanitizers nor libc's locks and caches take
// notice of it. No signal handler of ours may run there: all signals are blocked before clone(),
// and the child puts handlers back to the default before it unblocks.
#include "driver/child.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#define RINGLOOP_UNCHECKED __attribute__((no_sanitize("address", "thread", "undefined")))

// Of kernels newer than the headers that some build against.
#ifndef CLONE_PIDFD
#define CLONE_PIDFD 0x1000
#endif
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

// TSan takes every clone() for a fork, and undoes in our memory what it has done there for one. The
// C library's other name for the same function goes past it.
#if defined(__has_feature)
#define RINGLOOP_HAS_FEATURE(name) __has_feature(name)
#else
#define RINGLOOP_HAS_FEATURE(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || RINGLOOP_HAS_FEATURE(thread_sanitizer)
extern "C" int __clone(int (*)(void*), void*, int, void*, ...) noexcept;
#define RINGLOOP_CLONE ::__clone
#else
#define RINGLOOP_CLONE ::clone
#endif

namespace ringloop::detail {
namespace {

constexpr std::size_t stack_size = 64 * 1024;
constexpr int signals_max = 64;
constexpr std::size_t mask_size = 8;  // bytes, as the kernel has it
constexpr auto by_pidfd = static_cast<idtype_t>(3);

struct launch {
    const spawn_request& request;
    std::uint64_t mask_before = 0;
    unsigned descriptors_max = 0;
    int error_number = 0;
    spawn_step step = spawn_step::process;
};

// ---- in the child

RINGLOOP_UNCHECKED bool move_streams(launch& self) noexcept {
    std::array<int, 3> from = self.request.streams;
    for (int i = 0; i < 3; ++i) {
        if (from[i] > 2 || from[i] == i) continue;
        from[i] = static_cast<int>(::syscall(SYS_fcntl, from[i], F_DUPFD_CLOEXEC, 3));
        if (from[i] < 0) return false;
    }
    for (int i = 0; i < 3; ++i) {
        if (from[i] == i) {
            ::syscall(SYS_fcntl, i, F_SETFD, 0);  // fails if it is closed: then it stays so
        } else if (::syscall(SYS_dup3, from[i], i, 0) < 0) {
            return false;
        }
    }
    return true;
}

RINGLOOP_UNCHECKED void close_between(const launch& self, unsigned first, unsigned last) noexcept {
    if (first > last || ::syscall(SYS_close_range, first, last, 0) == 0) return;
    for (unsigned fd = first; fd <= last && fd < self.descriptors_max; ++fd)
        ::syscall(SYS_close, fd);
}

RINGLOOP_UNCHECKED bool keep_descriptors(launch& self) noexcept {
    unsigned next = 3;
    for (const int fd : self.request.kept) {
        if (::syscall(SYS_fcntl, fd, F_SETFD, 0) < 0) return false;
        close_between(self, next, static_cast<unsigned>(fd) - 1);
        next = static_cast<unsigned>(fd) + 1;
    }
    close_between(self, next, ~0U);
    return true;
}

// Word 0 of the kernel's structure is the handler; all zero is the default.
RINGLOOP_UNCHECKED void reset_signals() noexcept {
    const unsigned long usual[8]{};
    for (int number = 1; number <= signals_max; ++number) {
        unsigned long found[8]{};
        if (::syscall(SYS_rt_sigaction, number, nullptr, found, mask_size) < 0) continue;
        if (found[0] > 1 || number == SIGPIPE || number == SIGXFSZ)
            ::syscall(SYS_rt_sigaction, number, usual, nullptr, mask_size);
    }
    const std::uint64_t none = 0;
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &none, nullptr, mask_size);
}

// Returns only if none of them could be started; errno says why.
RINGLOOP_UNCHECKED void run_program(const spawn_request& request) noexcept {
    bool was_refused = false;
    for (const std::string& path : request.candidates) {
        ::syscall(SYS_execve, path.c_str(), request.arguments, request.environment);
        if (errno == EACCES) was_refused = true;
        if (errno != EACCES && errno != ENOENT && errno != ENOTDIR) return;
    }
    if (was_refused) errno = EACCES;
}

RINGLOOP_UNCHECKED bool prepare(launch& self) noexcept {
    self.step = spawn_step::descriptors;
    if (!move_streams(self) || !keep_descriptors(self)) return false;
    self.step = spawn_step::session;
    if (self.request.new_session && ::syscall(SYS_setsid) < 0) return false;
    self.step = spawn_step::directory;
    const char* directory = self.request.directory;
    return directory == nullptr || ::syscall(SYS_chdir, directory) == 0;
}

RINGLOOP_UNCHECKED int child_main(void* context) noexcept {
    launch& self = *static_cast<launch*>(context);
    if (prepare(self)) {
        self.step = spawn_step::program;
        reset_signals();
        run_program(self.request);
    }
    self.error_number = errno;
    for (;;) ::syscall(SYS_exit_group, 127);
}

// ---- here

void collect_failed(int pid) noexcept {
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

}  // namespace

spawned spawn_child(const spawn_request& request) noexcept {
    const std::unique_ptr<std::byte[]> stack(new (std::nothrow) std::byte[stack_size]);
    if (stack == nullptr) return {.error_number = ENOMEM};
    launch self{request};
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
        self.descriptors_max = static_cast<unsigned>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
    // libc's own two signals as well, which pthread_sigmask() leaves out.
    const std::uint64_t all = ~std::uint64_t{0};
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &self.mask_before, mask_size);
    spawned made;
    const auto top =
        (reinterpret_cast<std::uintptr_t>(stack.get()) + stack_size) & ~std::uintptr_t{15};
    made.pid = RINGLOOP_CLONE(&child_main, reinterpret_cast<void*>(top),
                              CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &self, &made.pidfd);
    made.error_number = made.pid < 0 ? errno : self.error_number;
    made.failed_at = self.step;
    ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &self.mask_before, nullptr, mask_size);
    if (made.pid < 0) return made;
    if (made.error_number == 0 && made.pidfd < 0) {
        made.error_number = ENOSYS;  // this kernel has no pidfds
        made.failed_at = spawn_step::process;
        ::kill(made.pid, SIGKILL);
    }
    if (made.error_number != 0) {
        collect_failed(made.pid);
        if (made.pidfd >= 0) ::close(made.pidfd);
        made.pid = made.pidfd = -1;
    }
    return made;
}

int reap_child(int pidfd, bool wait, child_end& end) noexcept {
    siginfo_t found{};
    int result = 0;
    do {
        result =
            ::waitid(by_pidfd, static_cast<id_t>(pidfd), &found, WEXITED | (wait ? 0 : WNOHANG));
    } while (result < 0 && errno == EINTR);
    if (result < 0) return -errno;
    if (found.si_pid == 0) return 0;  // not yet
    end.ended = true;
    end.core_dumped = found.si_code == CLD_DUMPED;
    (found.si_code == CLD_EXITED ? end.code : end.signal) = found.si_status;
    return 0;
}

int signal_child(int pidfd, int number) noexcept {
    return ::syscall(SYS_pidfd_send_signal, pidfd, number, nullptr, 0) < 0 ? -errno : 0;
}

int open_null() noexcept {
    const int fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int above_streams(int fd) noexcept {
    if (fd < 0 || fd > 2) return fd;
    const int moved = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
    const int error = errno;
    ::close(fd);
    return moved < 0 ? -error : moved;
}

}  // namespace ringloop::detail
