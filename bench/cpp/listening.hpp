// listening: the socket that every rival server listens on, made alike for all.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

inline void require(bool good, const char* what) {
    if (good) return;
    std::perror(what);
    std::exit(1);
}

// Binds to a free port of 127.0.0.1 and prints it.
inline int listen_and_print(int extra_type) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | extra_type, 0);
    require(fd >= 0, "socket");
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // inherited by accepted sockets
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    require(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "bind");
    require(::listen(fd, 1024) == 0, "listen");
    socklen_t size = sizeof address;
    ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
    std::printf("%d\n", ntohs(address.sin_port));
    std::fflush(stdout);
    return fd;
}
