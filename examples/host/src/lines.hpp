// lines: what the two programs share: a listener that says where it is, and the lines of a stream.
#pragma once

#include <cstddef>
#include <iostream>
#include <stdexcept>
#include <string>
#include <utility>

#include <ringloop/python.hpp>

namespace lines {

constexpr std::size_t line_max = 4096;

// The line is for people, and for tests, which give port 0 and read here which it became.
inline ringloop::net::tcp_listener listen(const char* address, const char* port) {
    auto listener = ringloop::net::tcp_listener::bind(
        {address, static_cast<std::uint16_t>(std::stoul(port))});
    std::cout << "listening on " << listener.local().to_string() << std::endl;
    return listener;
}

inline ringloop::generator<std::string> of(ringloop::net::tcp_stream& from) {
    std::string text;
    while (auto chunk = co_await from.receive()) {
        text += chunk.text();
        chunk.release();
        std::size_t begin = 0;
        for (std::size_t end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
            co_yield text.substr(begin, end - begin);
        text.erase(0, begin);
        if (text.size() > line_max) throw std::length_error("a line is too long");
    }
}

}  // namespace lines
