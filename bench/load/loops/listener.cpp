// Accepting and nothing else.
#include "listener.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <vector>

namespace load {
namespace {

void require(bool good, const char* what) {
    if (!good) throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace

void listen_and_hold() {
    const int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    require(listening >= 0, "socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    require(bind(listening, reinterpret_cast<sockaddr*>(&address), size) == 0, "bind");
    require(listen(listening, 65535) == 0, "listen");
    getsockname(listening, reinterpret_cast<sockaddr*>(&address), &size);
    std::printf("%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    std::vector<int> held;
    while (true) {
        pollfd either[2] = {{listening, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
        require(poll(either, 2, -1) > 0 || errno == EINTR, "poll");
        if (either[1].revents != 0) break;
        for (int made = 0; (made = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
            held.push_back(made);
        require(errno == EAGAIN || errno == ECONNABORTED, "accept");
    }
    for (const int each : held) close(each);
    close(listening);
}

}  // namespace load
