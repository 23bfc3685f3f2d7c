// The epoll body where readiness and completions differ most: files, blocking descriptors, numbers
// that were closed behind its back, work that gets stuck.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "ringloop/detail/same_file.hpp"
#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

#define ON_REAL_BODIES(bench)                                \
    const body chosen = GENERATE(from_range(real_bodies())); \
    CAPTURE(chosen);                                         \
    workbench bench(chosen);                                 \
    [[maybe_unused]] driver& d = *bench.d

TEST_CASE("a regular file is always ready, as poll(2) says") {
    ON_REAL_BODIES(bench);
    const int fd = ::open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    recorder op(d);
    op.prepare_poll(fd, POLLIN | POLLOUT);
    CHECK(op.run() == (POLLIN | POLLOUT));
    recorder repeating(d);
    repeating.prepare_poll(fd, POLLIN, true);
    d.submit(repeating);
    turn_until(d, [&] { return !repeating.seen.empty(); });
    CHECK(repeating.seen[0].more);
    CHECK(repeating.seen[0].result == POLLIN);
    d.retire(repeating);
    // The ring ends and re-arms it for ever: its last answer may be one more "ready".
    CHECK((repeating.result() == -ECANCELED || repeating.result() == POLLIN));
    ::close(fd);
}

TEST_CASE("an epoll set forgets a descriptor that is given up") {
    workbench bench(body{backend::epoll});
    driver& d = *bench.d;
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.poll();
    d.retire(op);
    const int set = d.pollable_fd();
    const int copy = ::dup(p.far);
    const bool told = detail::same_file(p.far, copy) >= 0;  // sandboxes forbid kcmp()
    if (told) {
        CHECK(detail::same_file(p.far, copy) == 1);
        CHECK(detail::same_file(p.far, p.near) == 0);
        CHECK(detail::same_file(p.far, -1) == -EBADF);
        CHECK(detail::same_as_epoll_entry(copy, set, p.far, 0) == 1);
        CHECK(detail::same_as_epoll_entry(p.near, set, p.far, 0) == 0);
    }
    d.give_up(p.far);
    if (told) CHECK(detail::same_as_epoll_entry(copy, set, p.far, 0) == 0);
    ::close(copy);
    bench.close(p);
}

TEST_CASE("a read of a pipe waits for the writer without a thread, blocking pipe or not") {
    ON_REAL_BODIES(bench);
    const int mode = GENERATE(0, O_NONBLOCK);
    CAPTURE(mode);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC | mode) == 0);
    char data[8] = {};
    recorder op(d);
    op.prepare_read(ends[0], data, sizeof data, -1);
    d.submit(op);
    d.poll();
    turn(d, 1'000'000);
    CHECK(op.seen.empty());
    REQUIRE(::write(ends[1], "pipe", 4) == 4);
    turn_until(d, [&] { return op.over(); });
    CHECK(op.result() == 4);
    CHECK(std::string_view(data, 4) == "pipe");
    op.seen.clear();
    op.prepare_read(ends[0], data, sizeof data, -1);
    d.submit(op);
    d.poll();
    d.retire(op);
    CHECK((op.result() == -ECANCELED || op.result() == -EINTR));
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_CASE("an accept and a connect on blocking sockets do not block the driver") {
    ON_REAL_BODIES(bench);
    const auto l = bench.listen();
    REQUIRE(::fcntl(l.fd, F_SETFL, 0) == 0);
    recorder accept(d);
    accept.prepare_accept(l.fd, false);
    d.submit(accept);
    turn(d, 1'000'000);
    CHECK(accept.seen.empty());
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    recorder connect(d);
    connect.prepare_connect(fd, reinterpret_cast<const sockaddr*>(&l.address), sizeof l.address);
    CHECK(connect.run() == 0);
    turn_until(d, [&] { return accept.over(); });
    REQUIRE(accept.result() >= 0);
    CHECK((::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0);
    recorder receive(d);
    receive.prepare_receive(fd, false);
    d.submit(receive);
    turn(d, 1'000'000);
    CHECK(receive.seen.empty());
    bench.send(accept.result(), "late");
    turn_until(d, [&] { return receive.over(); });
    CHECK(receive.data == "late");
    ::close(fd);
    ::close(accept.result());
    ::close(l.fd);
}

TEST_CASE("a number that was closed and reused behind the driver's back works again") {
    ON_REAL_BODIES(bench);
    for (int i = 0; i < 3; ++i) {
        const auto p = bench.connect_pair();
        recorder op(d);
        op.prepare_receive(p.far, false);
        d.submit(op);
        d.poll();
        bench.send(p.near, "x");
        turn_until(d, [&] { return op.over(); });
        ::close(p.far);  // not by the driver
        ::close(p.near);
    }
}

TEST_CASE("a dup keeps the file open behind a close; nothing is delivered to the wrong one") {
    ON_REAL_BODIES(bench);
    const auto p = bench.connect_pair();
    recorder op(d);
    op.prepare_receive(p.far, true);
    d.submit(op);
    d.poll();
    const int copy = ::fcntl(p.far, F_DUPFD_CLOEXEC, 0);
    d.retire(op);
    CHECK(d.close(p.far) == 0);
    const auto q = bench.connect_pair();  // takes the number
    recorder other(d);
    other.prepare_receive(q.far, true);
    d.submit(other);
    d.poll();
    bench.send(p.near, "for the dup");
    turn(d, 2'000'000);
    CHECK(other.data.empty());
    bench.send(q.near, "for the other");
    turn_until(d, [&] { return !other.data.empty(); });
    CHECK(other.data == "for the other");
    d.retire(other);
    ::close(copy);
    CHECK(d.close(p.near) == 0);
    bench.close(q);
}

// A FIFO without a reader: an open for writing is stuck in a worker until release().
struct reluctant_fifo {
    reluctant_fifo() {
        ::unlink(path.c_str());
        REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
    }
    // Lets the worker that was left behind go, and sees that it keeps no descriptor. (If it never
    // began, there is nobody to wait for.)
    void release() const {
        const int reader = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        REQUIRE(reader >= 0);
        pollfd gone{reader, POLLIN, 0};
        ::poll(&gone, 1, 2000);
        ::close(reader);
        ::unlink(path.c_str());
    }
    const std::string path = "/tmp/ringloop_fifo_" + std::to_string(::getpid());
};

// The ring answers ENXIO at once: it tries without blocking first.
TEST_CASE("an open that is stuck in the file pool can be given up") {
    workbench bench({backend::epoll});
    driver& d = *bench.d;
    const reluctant_fifo fifo;
    recorder op(d);
    op.prepare_open(AT_FDCWD, fifo.path.c_str(), O_WRONLY, 0);
    d.submit(op);
    turn(d, 5'000'000);
    CHECK(op.seen.empty());
    d.retire(op);
    CHECK(op.result() == -ECANCELED);
    fifo.release();
}

TEST_CASE("what waits behind a stuck open runs when that is given up") {
    driver_config one_worker;
    one_worker.file_threads_max = 1;
    workbench bench({backend::epoll}, one_worker);
    driver& d = *bench.d;
    const reluctant_fifo fifo;
    recorder stuck(d);
    stuck.prepare_open(AT_FDCWD, fifo.path.c_str(), O_WRONLY, 0);
    d.submit(stuck);
    turn(d, 5'000'000);
    recorder behind(d);
    behind.prepare_open(AT_FDCWD, "/dev/null", O_WRONLY, 0);
    d.submit(behind);
    turn(d, 5'000'000);
    CHECK(behind.seen.empty());
    d.retire(stuck);
    turn_until(d, [&] { return !behind.seen.empty(); });
    CHECK(behind.result() >= 0);
    CHECK(d.close(behind.result()) == 0);
    fifo.release();
}

TEST_CASE("a signal interrupts a wait and is reported") {
    ON_REAL_BODIES(bench);
    struct sigaction action {};
    struct sigaction before {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR1, &action, &before);
    const pthread_t self = ::pthread_self();
    std::atomic<bool> over{false};
    std::thread sender([&] {
        while (!over) {
            ::pthread_kill(self, SIGUSR1);
            std::this_thread::yield();
        }
    });
    wait_result result = wait_result::ready;
    for (int i = 0; i < 100'000 && result != wait_result::interrupted; ++i) result = d.wait({});
    over = true;
    sender.join();
    CHECK(result == wait_result::interrupted);
    ::sigaction(SIGUSR1, &before, nullptr);
}
