// options: what one run of loopclient does, read from words KEY=VALUE.
#pragma once

#include <cstddef>
#include <string>

namespace load {

enum class life {
    keep,   // a request follows the answer to the one before
    once,   // one request and its answer, then a new connection
    close,  // no request: the server closes, then a new connection
};

struct options {
    std::string kind = "tcp";      // tcp, unix, udp or tls
    std::string address;           // a port of 127.0.0.1, or a Unix socket's path
    std::size_t connections = 10;  // one request in flight on each
    std::size_t bytes = 1024;      // of a request, at least 8
    std::size_t line_bytes = 0;    // not 0: the request is lines of that length
    std::string websocket;         // not empty: the path to upgrade at; requests are frames
    std::string answer_file;       // not empty: what answers each request, instead of an echo
    load::life life = life::keep;
    double warm_seconds = 0.1;
    double seconds = 1;
    double per_second = 0;  // of all connections together; 0: flat out
    bool flood = false;     // one connection more, which sends without waiting
    int server_pid = 0;     // not 0: whose CPU time is reported
};

// Throws std::runtime_error naming the word that cannot be used.
[[nodiscard]] options read_options(int count, char** words);

}  // namespace load
