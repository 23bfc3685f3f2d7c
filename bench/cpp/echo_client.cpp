// echo_client PORT CONNECTIONS BYTES SECONDS: the load of the echo benchmarks.
//
// One request in flight on each connection; every answer is compared with what was sent. One
// thread, epoll. Prints one line of JSON: {"requests", "seconds", "p50_us", "p99_us"}. Exits with 1
// and a sentence if an answer is wrong or a connection breaks.
#include <sys/epoll.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "listening.hpp"

namespace {

std::int64_t now_ns() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "echo_client: %s: %s\n", what, std::strerror(errno));
    std::exit(1);
}

struct connection {
    int fd = -1;
    std::size_t sent = 0;
    std::size_t got = 0;
    std::uint64_t number = 0;  // of the request; its first bytes say so
    std::int64_t begin_ns = 0;
    std::string request;
};

class client {
  public:
    client(int port, int count, std::size_t size) : poller_(::epoll_create1(EPOLL_CLOEXEC)) {
        connections_.resize(static_cast<std::size_t>(count));
        for (std::size_t i = 0; i < connections_.size(); ++i) open(i, port, size);
    }

    void run(double seconds) {
        begin_ns_ = now_ns();
        end_ns_ = begin_ns_ + static_cast<std::int64_t>(seconds * 1e9);
        for (auto& c : connections_) start(c);
        epoll_event events[256];
        std::int64_t now = begin_ns_;
        while (active_ != 0) {
            const int count = ::epoll_wait(poller_, events, 256, 5000);
            if (count == 0) fail("no answer for five seconds");
            now = now_ns();
            for (int i = 0; i < count; ++i) {
                connection& c = connections_[events[i].data.u64];
                if ((events[i].events & EPOLLOUT) != 0) send_rest(c);
                if ((events[i].events & EPOLLIN) != 0) receive(c, now);
            }
        }
        report(static_cast<double>(now - begin_ns_) / 1e9);
    }

  private:
    void open(std::size_t index, int port, std::size_t size) {
        connection& c = connections_[index];
        c.fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (c.fd < 0) fail("socket");
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_port = htons(static_cast<std::uint16_t>(port));
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if (::connect(c.fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
            fail("connect");
        const int on = 1;
        ::setsockopt(c.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        c.request.resize(size);
        for (std::size_t i = 0; i < size; ++i)
            c.request[i] = static_cast<char>((i * 31 + index * 7) & 0xff);
        watch(c, EPOLL_CTL_ADD, EPOLLIN);
    }

    void watch(connection& c, int action, std::uint32_t what) {
        epoll_event event{};
        event.events = what;
        event.data.u64 = static_cast<std::uint64_t>(&c - connections_.data());
        if (::epoll_ctl(poller_, action, c.fd, &event) != 0) fail("epoll_ctl");
    }

    void start(connection& c) {
        ++c.number;
        std::memcpy(c.request.data(), &c.number, std::min(sizeof c.number, c.request.size()));
        c.sent = c.got = 0;
        c.begin_ns = now_ns();
        ++active_;
        send_rest(c);
    }

    void send_rest(connection& c) {
        const ssize_t sent = ::send(c.fd, c.request.data() + c.sent, c.request.size() - c.sent,
                                    MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN) fail("send");
        const bool blocked_before = c.sent != 0 && c.sent < c.request.size();
        if (sent > 0) c.sent += static_cast<std::size_t>(sent);
        const bool blocked = c.sent < c.request.size();
        if (blocked || blocked_before)
            watch(c, EPOLL_CTL_MOD, blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
    }

    void receive(connection& c, std::int64_t now) {
        static char buffer[65536];
        const ssize_t got = ::recv(c.fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) fail("the connection broke");
        const auto count = static_cast<std::size_t>(got);
        if (c.got + count > c.request.size() ||
            std::memcmp(buffer, c.request.data() + c.got, count) != 0) {
            errno = EBADMSG;
            fail("an answer differs from its request");
        }
        c.got += count;
        if (c.got < c.request.size()) return;
        --active_;
        ++requests_;
        latencies_us_.push_back(static_cast<float>(now - c.begin_ns) / 1000.0F);
        if (now < end_ns_) start(c);
    }

    void report(double seconds) {
        std::sort(latencies_us_.begin(), latencies_us_.end());
        const auto at = [&](double share) {
            return static_cast<double>(latencies_us_[static_cast<std::size_t>(
                share * static_cast<double>(latencies_us_.size() - 1))]);
        };
        std::printf("{\"requests\": %llu, \"seconds\": %.6f, \"p50_us\": %.2f, \"p99_us\": %.2f}\n",
                    static_cast<unsigned long long>(requests_), seconds, at(0.5), at(0.99));
    }

    int poller_;
    std::vector<connection> connections_;
    std::vector<float> latencies_us_;
    std::uint64_t requests_ = 0;
    std::size_t active_ = 0;
    std::int64_t begin_ns_ = 0;
    std::int64_t end_ns_ = 0;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 5) {
        std::fprintf(stderr, "echo_client PORT CONNECTIONS BYTES SECONDS\n");
        return 2;
    }
    client load(std::atoi(arguments[1]), std::atoi(arguments[2]),
                static_cast<std::size_t>(std::atoll(arguments[3])));
    load.run(std::atof(arguments[4]));
}
