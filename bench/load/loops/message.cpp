// Making requests: plain bytes, lines, WebSocket frames, or a question that a file answers.
#include "message.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace load {
namespace {

constexpr std::size_t number_digits = 8;

std::string payload(const options& wanted, std::size_t connection) {
    std::string made(wanted.bytes, ' ');
    for (std::size_t at = 0; at < made.size(); ++at)
        made[at] = static_cast<char>('a' + (at * 31 + connection * 7) % 26);
    for (std::size_t end = wanted.line_bytes; wanted.line_bytes != 0 && end <= made.size();
         end += wanted.line_bytes)
        made[end - 1] = '\n';
    return made;
}

// The head of a binary frame; `masked` by zeros, which leaves the bytes as they are.
std::string frame_head(std::size_t size, bool masked) {
    std::string head = "\x82";
    const auto mask = static_cast<char>(masked ? 0x80 : 0);
    if (size < 126) {
        head += static_cast<char>(mask | static_cast<char>(size));
    } else if (size <= 0xffff) {
        head += static_cast<char>(mask | 126);
        head += static_cast<char>(size >> 8);
        head += static_cast<char>(size & 0xff);
    } else {
        throw std::runtime_error("a WebSocket message of more than 65,535 bytes");
    }
    return masked ? head + std::string(4, '\0') : head;
}

std::shared_ptr<std::string> contents(const std::string& path) {
    static std::string known_path;
    static std::shared_ptr<std::string> known;  // all connections get the same file
    if (known_path != path) {
        std::ifstream file(path, std::ios::binary);
        if (!file) throw std::runtime_error("cannot read " + path);
        known = std::make_shared<std::string>(std::istreambuf_iterator<char>(file),
                                              std::istreambuf_iterator<char>());
        known_path = path;
    }
    return known;
}

}  // namespace

message::message(const options& wanted, std::size_t connection)
    : request_(payload(wanted, connection)), echoed_(wanted.answer_file.empty()) {
    if (!echoed_) {
        answer_ = contents(wanted.answer_file);
    } else if (wanted.websocket.empty()) {
        answer_ = std::make_shared<std::string>(request_);
    } else {
        const std::string asked = frame_head(wanted.bytes, true);
        const std::string answered = frame_head(wanted.bytes, false);
        request_at_ = asked.size();
        answer_at_ = answered.size();
        answer_ = std::make_shared<std::string>(answered + request_);
        request_ = asked + request_;
        greeting_ = "GET " + wanted.websocket +
                    " HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
                    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                    "Sec-WebSocket-Key: cmluZ2xvb3AgcmluZ2xvbw==\r\n\r\n";
    }
    next();
}

void message::next() {
    ++number_;
    put(request_, request_at_);
    if (echoed_) put(*answer_, answer_at_);
}

void message::put(std::string& into, std::size_t at) const {
    for (std::size_t digit = 0; digit < number_digits - 1; ++digit)  // the 8th may end a line
        into[at + digit] = static_cast<char>('A' + ((number_ >> (4 * digit)) & 0xf));
}

bool message::fits(std::size_t offset, const char* bytes, std::size_t size) const noexcept {
    return offset + size <= answer_->size() &&
           std::memcmp(answer_->data() + offset, bytes, size) == 0;
}

}  // namespace load
