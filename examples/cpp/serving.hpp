// serving: what the examples that serve have in common: where they listen, and that they say so.
#pragma once

#include <charconv>
#include <cstdint>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>

#include <ringloop/ringloop.hpp>

namespace serving {

inline std::uint16_t port(std::string_view text) {
    std::uint16_t number = 0;
    const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (wrong != std::errc() || end != text.data() + text.size())
        throw std::invalid_argument("not a port: " + std::string(text));
    return number;
}

// The line is for people, and for tests, which give port 0 and read here which it became.
inline ringloop::net::tcp_listener listen(const ringloop::net::endpoint& at) {
    auto listener = ringloop::net::tcp_listener::bind(at);
    std::cout << "listening on " << listener.local().to_string() << std::endl;
    return listener;
}

}  // namespace serving
