// What happens on one connection. No system call but through its channel.
#include "connection.hpp"
#include "clock.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace load {
namespace {

std::string printable(const char* bytes, std::size_t size) {
    std::string made(bytes, std::min<std::size_t>(size, 60));
    for (char& each : made)
        if (each < ' ' || each > '~') each = '.';
    return made;
}

}  // namespace

client::client(const options& wanted, std::size_t number, tls_client* tls)
    : wanted_(&wanted), tls_(tls), message_(wanted, number) {}

void client::open() {
    began_ns_ = now_ns();
    channel_.emplace(wanted_->kind, wanted_->address, tls_);
    ready_ = tls_ == nullptr;
    greeted_ = message_.greeting().empty();
    greeting_answer_.clear();
    sent_ = got_ = 0;
    waits_ = true;
    if (!ready_) ready_ = channel_->handshake();
    send_some();
}

void client::begin() {
    began_ns_ = now_ns();
    message_.next();
    sent_ = got_ = 0;
    waits_ = true;
    send_some();
}

void client::repeat() {
    sent_ = 0;
    send_some();
}

std::size_t client::unsent() const noexcept {
    if (wanted_->life == life::close) return 0;
    return (greeted_ ? message_.request() : message_.greeting()).size() - sent_;
}

void client::send_some() {
    while (wants_write()) {
        const std::string& bytes = greeted_ ? message_.request() : message_.greeting();
        const long count = channel_->write(bytes.data() + sent_, bytes.size() - sent_);
        if (count == channel::would_block) return;
        sent_ += static_cast<std::size_t>(count);
    }
}

bool client::get_ready() {
    if (!ready_) ready_ = channel_->handshake();
    return ready_;
}

bool client::advance() {
    if (!get_ready()) return false;
    send_some();
    static char chunk[256 * 1024];
    bool complete = false;
    while (true) {
        const long count = channel_->read(chunk, sizeof chunk);
        if (count == channel::would_block) return complete;
        if (count == 0) {
            if (wanted_->life != life::close) throw std::runtime_error("the server closed");
            waits_ = false;
            return true;
        }
        complete = take(chunk, static_cast<std::size_t>(count)) || complete;
        // Less than there was room for: what comes later wakes the poller again.
        if (tls_ == nullptr && static_cast<std::size_t>(count) < sizeof chunk) return complete;
    }
}

bool client::take(const char* bytes, std::size_t size) {
    if (wanted_->life == life::close) throw std::runtime_error("bytes where none were asked for");
    if (!greeted_) {
        const std::size_t used = take_greeting(bytes, size);
        if (!greeted_) return false;
        bytes += used;
        size -= used;
        sent_ = 0;
        send_some();
        if (size == 0) return false;
    }
    if (!waits_ || !message_.fits(got_, bytes, size)) {
        if (wanted_->kind == "udp") return false;  // a late answer to a request that was repeated
        throw std::runtime_error("an answer differs from what is right, from byte " +
                                 std::to_string(got_) + " on: " + printable(bytes, size));
    }
    got_ += size;
    if (got_ < message_.answer().size()) return false;
    waits_ = false;
    return true;
}

std::size_t client::take_greeting(const char* bytes, std::size_t size) {
    const std::size_t before = greeting_answer_.size();
    greeting_answer_.append(bytes, size);
    const std::size_t end = greeting_answer_.find("\r\n\r\n");
    if (end == std::string::npos) return size;
    if (greeting_answer_.compare(0, 12, "HTTP/1.1 101") != 0)
        throw std::runtime_error("no upgrade, but: " + greeting_answer_.substr(0, end));
    greeted_ = true;
    return end + 4 - before;
}

}  // namespace load
