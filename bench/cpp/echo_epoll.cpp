// echo_epoll: the yardstick, a bare level-triggered epoll loop: wait, receive into one hot buffer,
// send; what the socket does not take waits in a buffer of the connection.
#include <sys/epoll.h>

#include <cerrno>
#include <cstdint>
#include <string>
#include <vector>

#include "listening.hpp"

namespace {

constexpr int events_max = 256;
constexpr std::size_t buffer_size = 65536;

struct connection {
    std::string unsent;
};

std::vector<connection> connections;
int poller;

void watch(int fd, int action, std::uint32_t what) {
    epoll_event event{};
    event.events = what;
    event.data.fd = fd;
    require(::epoll_ctl(poller, action, fd, &event) == 0, "epoll_ctl");
}

void accept_all(int listener) {
    while (true) {
        const int fd = ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        const auto index = static_cast<std::size_t>(fd);
        if (connections.size() <= index) connections.resize(index + 1);
        connections[index].unsent.clear();
        watch(fd, EPOLL_CTL_ADD, EPOLLIN);
    }
}

// False: the connection is over.
bool send_unsent(int fd) {
    std::string& unsent = connections[static_cast<std::size_t>(fd)].unsent;
    const ssize_t sent = ::send(fd, unsent.data(), unsent.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN;
    unsent.erase(0, static_cast<std::size_t>(sent));
    if (unsent.empty()) watch(fd, EPOLL_CTL_MOD, EPOLLIN);
    return true;
}

bool echo(int fd) {
    static char buffer[buffer_size];
    const ssize_t got = ::recv(fd, buffer, sizeof buffer, 0);
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    ssize_t sent = ::send(fd, buffer, static_cast<std::size_t>(got), MSG_NOSIGNAL);
    if (sent < 0) {
        if (errno != EAGAIN) return false;
        sent = 0;
    }
    if (sent < got) {
        connections[static_cast<std::size_t>(fd)].unsent.assign(
            buffer + sent, static_cast<std::size_t>(got - sent));
        watch(fd, EPOLL_CTL_MOD, EPOLLOUT);
    }
    return true;
}

}  // namespace

int main() {
    poller = ::epoll_create1(EPOLL_CLOEXEC);
    const int listener = listen_and_print(SOCK_NONBLOCK);
    watch(listener, EPOLL_CTL_ADD, EPOLLIN);
    epoll_event events[events_max];
    while (true) {
        const int count = ::epoll_wait(poller, events, events_max, -1);
        for (int i = 0; i < count; ++i) {
            const int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(listener);
            } else if (!((events[i].events & EPOLLOUT) != 0 ? send_unsent(fd) : echo(fd))) {
                ::close(fd);
            }
        }
    }
}
