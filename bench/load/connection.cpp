// One connection: sending, receiving, and judging the answer. One thread; never blocks.
#include "connection.hpp"
#include "clock.hpp"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <stdexcept>
#include <system_error>

namespace load {
namespace {

[[noreturn]] void fail(const char* what) {
    throw std::system_error(errno, std::generic_category(), what);
}

std::size_t content_length(const std::string& head) {
    for (std::size_t at = head.find("\r\n"); at != std::string::npos; at = head.find("\r\n", at)) {
        at += 2;
        if (strncasecmp(head.data() + at, "content-length:", 15) == 0)
            return std::strtoull(head.data() + at + 15, nullptr, 10);
    }
    throw std::runtime_error("an answer without Content-Length: " + head);
}

std::string printable(std::string text) {
    for (char& one : text)
        if (one != '\n' && (one < ' ' || one > '~')) one = '.';
    return text;
}

}  // namespace

connection::connection(std::uint16_t port)
    : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (descriptor_ < 0) fail("socket");
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
        fail("connect");
    const int yes = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

connection::~connection() {
    if (descriptor_ >= 0) close(descriptor_);
}

void connection::begin(kind& what) {
    what_ = &what;
    sent_ = 0;
    answer_.clear();
    head_size_ = 0;
    began_ns_ = now_ns();
    send_some();
}

void connection::send_some() {
    while (wants_write()) {
        const ssize_t count = send(descriptor_, what_->request.data() + sent_,
                                   what_->request.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (count < 0) {
            if (errno == EAGAIN) return;
            fail("send");
        }
        sent_ += static_cast<std::size_t>(count);
    }
}

bool connection::advance() {
    send_some();
    char chunk[256 * 1024];
    while (true) {
        const ssize_t count = recv(descriptor_, chunk, sizeof chunk, MSG_DONTWAIT);
        if (count < 0 && errno == EAGAIN) return false;
        if (count < 0) fail("receive");
        if (count == 0) throw std::runtime_error("the server closed during " + what_->name);
        answer_.append(chunk, static_cast<std::size_t>(count));
        if (check_answer()) return true;
    }
}

bool connection::check_answer() {
    if (head_size_ == 0) {
        const std::size_t end = answer_.find("\r\n\r\n");
        if (end == std::string::npos) return false;
        head_size_ = end + 4;
        body_size_ = content_length(answer_.substr(0, head_size_));
    }
    if (answer_.size() < head_size_ + body_size_) return false;
    if (answer_.compare(0, 12, "HTTP/1.1 200") != 0 ||
        answer_.compare(head_size_, std::string::npos, what_->body) != 0)
        throw std::runtime_error("a wrong answer to " + what_->name + ": " +
                                 printable(answer_.substr(0, head_size_ + 300)));
    return true;
}

}  // namespace load
