// Limits and forks, in child processes: RLIMIT_MEMLOCK as an unprivileged user, io_uring denied by
// seccomp, a fork with operations in flight. A child reports by its exit code: 0, or a line number.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

#define EXPECT(condition) \
    if (!(condition)) ::_exit(__LINE__ % 250 + 1)

namespace {

template <typename Body>
int in_child(Body act) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(60);
        act();
        ::_exit(0);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

void become_plain_user(rlim_t memlock) {
    const rlimit limit{memlock, memlock};
    EXPECT(::setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    if (::getuid() == 0) {
        EXPECT(::setresgid(65534, 65534, 65534) == 0);
        EXPECT(::setresuid(65534, 65534, 65534) == 0);
    }
}

// Answers `error` to the three io_uring calls (or one of them), as container profiles do.
void deny(std::initializer_list<long> calls, int error) {
    std::vector<sock_filter> program;
    program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
    for (const long call : calls) {
        program.push_back(
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(call), 0, 1));
        program.push_back(
            BPF_STMT(BPF_RET | BPF_K, static_cast<std::uint32_t>(SECCOMP_RET_ERRNO | error)));
    }
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
    EXPECT(::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    EXPECT(::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

void echo_once(driver& d) {
    int ends[2];
    EXPECT(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    recorder op(d);
    op.prepare_receive(ends[0], true);
    d.submit(op);
    EXPECT(::write(ends[1], "hi", 2) == 2);
    while (op.data != "hi") {
        EXPECT(d.wait({.deadline_ns = d.now_ns() + 60'000'000'000}) != wait_result::timed_out);
        d.dispatch(phase::native);
    }
    d.retire(op);
    ::close(ends[0]);
    ::close(ends[1]);
}

constexpr long ring_setup = 425;
constexpr long ring_enter = 426;
constexpr long ring_register = 427;

}  // namespace

TEST_CASE("a driver starts and works at every memlock limit, as a plain user") {
    const rlim_t kib = GENERATE(0, 4, 8, 16, 32, 64, 8192);
    CAPTURE(kib);
    CHECK(in_child([&] {
              become_plain_user(kib * 1024);
              const auto d = make_driver();
              echo_once(*d);
              if (kib == 0 && ring_works_here()) {
                  EXPECT(d->what().chosen == backend::epoll);
                  EXPECT(std::strstr(d->what().reason.c_str(), "RLIMIT_MEMLOCK") != nullptr);
              }
          }) == 0);
}

TEST_CASE("two hundred drivers come and go under 64 KiB of memlock") {
    CHECK(in_child([] {
              become_plain_user(64 * 1024);
              for (int i = 0; i < 200; ++i) {
                  const auto d = make_driver();
                  echo_once(*d);
              }
          }) == 0);
}

TEST_CASE("where seccomp denies io_uring the driver falls back and says so") {
    const int error = GENERATE(EPERM, ENOSYS);
    const long call = GENERATE(ring_setup, ring_enter, ring_register);
    CAPTURE(error, call);
    CHECK(in_child([&] {
              deny({call}, error);
              const auto d = make_driver();
              EXPECT(d->what().chosen == backend::epoll);
              EXPECT(std::strstr(d->what().reason.c_str(), "seccomp") != nullptr);
              echo_once(*d);
              try {
                  static_cast<void>(make_driver({.choice = backend::uring}));
                  ::_exit(99);
              } catch (const std::system_error& refused) {
                  EXPECT(refused.code().value() == error);
                  EXPECT(std::strstr(refused.what(), "io_uring_") != nullptr);
              }
          }) == 0);
}

TEST_CASE("without epoll_pwait2 deadlines are still exact") {
    CHECK(in_child([] {
              deny({SYS_epoll_pwait2}, ENOSYS);
              const auto d = make_driver({.choice = backend::epoll});
              for (int i = 0; i < 3; ++i) {
                  const std::int64_t deadline_ns = d->now_ns() + 300'000;
                  EXPECT(d->wait({.deadline_ns = deadline_ns}) == wait_result::timed_out);
                  EXPECT(d->now_ns() >= deadline_ns);
              }
              echo_once(*d);
          }) == 0);
}

TEST_CASE("a forked child drops the driver without hurting the parent's, and makes its own") {
    const body chosen = GENERATE(from_range(real_bodies()));
    CAPTURE(chosen);
    workbench bench(chosen);
    driver& d = *bench.d;
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    recorder file(d);
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    char byte = 0;
    file.prepare_read(fd, &byte, 1, 0);
    CHECK(file.run() == 1);  // the file pool, where there is one, has a thread
    d.poll();
    CHECK(in_child([&] {
              d.abandon_after_fork();
              EXPECT(d.in_flight() == 0);
              EXPECT(!op.in_flight());
              bench.d.reset();
              const auto own = make_body(chosen);
              echo_once(*own);
          }) == 0);
    bench.send(p.near, "parent");
    turn_until(d, [&] { return op.data == "parent"; });
    d.retire(op);
    ::close(fd);
    bench.close(p);
}

TEST_CASE("a forked child that abandons the driver holds no peer's connection open") {
    const body chosen = GENERATE(from_range(real_bodies()));
    CAPTURE(chosen);
    workbench bench(chosen);
    driver& d = *bench.d;
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.poll();
    int gate[2];
    REQUIRE(::pipe2(gate, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        d.abandon_after_fork();
        ::close(p.near);
        ::close(p.far);
        ::close(gate[1]);
        char byte = 0;
        static_cast<void>(::read(gate[0], &byte, 1) + 1);
        ::_exit(0);
    }
    d.retire(op);
    CHECK(d.close(p.far) == 0);
    CHECK(bench.take(p.near, 1).empty());
    CHECK(d.close(p.near) == 0);
    ::close(gate[0]);
    ::close(gate[1]);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK(status == 0);
}
