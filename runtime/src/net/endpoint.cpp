// Parsing and printing of numeric addresses.
#include "ringloop/net/endpoint.hpp"

#include <arpa/inet.h>

#include <array>
#include <charconv>
#include <cstring>
#include <stdexcept>

namespace ringloop::net {
namespace {

bool parse_scope(std::string_view text, std::uint32_t& scope) noexcept {
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), scope);
    return failure == std::errc{} && end == text.data() + text.size();
}

}  // namespace

endpoint::endpoint() noexcept {
    std::memset(&storage_, 0, sizeof storage_);
    storage_.v4.sin_family = AF_INET;
}

endpoint::endpoint(std::string_view address, std::uint16_t port) : endpoint() {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const std::size_t percent = address.find('%');
    const std::string_view bare = address.substr(0, percent);
    if (bare.size() < text.size()) {
        bare.copy(text.data(), bare.size());
        in6_addr wide{};
        if (percent == std::string_view::npos &&
            inet_pton(AF_INET, text.data(), &storage_.v4.sin_addr) == 1) {
            storage_.v4.sin_port = htons(port);
            return;
        }
        std::uint32_t scope = 0;
        const bool scope_is_good =
            percent == std::string_view::npos || parse_scope(address.substr(percent + 1), scope);
        if (scope_is_good && inet_pton(AF_INET6, text.data(), &wide) == 1) {
            storage_.v6.sin6_family = AF_INET6;
            storage_.v6.sin6_port = htons(port);
            storage_.v6.sin6_flowinfo = 0;
            storage_.v6.sin6_addr = wide;
            storage_.v6.sin6_scope_id = scope;
            return;
        }
    }
    throw std::invalid_argument("ringloop: '" + std::string(address) +
                                "' is not a numeric IPv4 or IPv6 address; look names up first");
}

endpoint::endpoint(const sockaddr* address, socklen_t size) : endpoint() {
    if (address->sa_family == AF_INET && size >= sizeof storage_.v4) {
        std::memcpy(&storage_.v4, address, sizeof storage_.v4);
    } else if (address->sa_family == AF_INET6 && size >= sizeof storage_.v6) {
        std::memcpy(&storage_.v6, address, sizeof storage_.v6);
    } else {
        throw std::invalid_argument("ringloop: the socket address is neither IPv4 nor IPv6");
    }
}

std::uint16_t endpoint::port() const noexcept {
    return ntohs(family() == AF_INET ? storage_.v4.sin_port : storage_.v6.sin6_port);
}

socklen_t endpoint::size() const noexcept {
    return family() == AF_INET ? sizeof storage_.v4 : sizeof storage_.v6;
}

std::string endpoint::to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    const std::string number = std::to_string(port());
    if (family() == AF_INET) {
        inet_ntop(AF_INET, &storage_.v4.sin_addr, text.data(), text.size());
        return std::string(text.data()) + ":" + number;
    }
    inet_ntop(AF_INET6, &storage_.v6.sin6_addr, text.data(), text.size());
    std::string scope;
    if (storage_.v6.sin6_scope_id != 0) scope = "%" + std::to_string(storage_.v6.sin6_scope_id);
    return "[" + std::string(text.data()) + scope + "]:" + number;
}

bool endpoint::operator==(const endpoint& other) const noexcept {
    if (family() != other.family() || port() != other.port()) return false;
    if (family() == AF_INET)
        return storage_.v4.sin_addr.s_addr == other.storage_.v4.sin_addr.s_addr;
    return storage_.v6.sin6_scope_id == other.storage_.v6.sin6_scope_id &&
           std::memcmp(&storage_.v6.sin6_addr, &other.storage_.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace ringloop::net
