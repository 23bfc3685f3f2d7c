// resolve, connect: names to addresses, and a connection to the first of them that answers.
//
//     auto stream = co_await net::connect("example.org", 443);
//     for (const auto& at : co_await net::resolve("localhost", 80)) …
//
// A numeric address costs no thread. Anything else is getaddrinfo(3)'s: it runs on at most four
// threads that the whole process shares, started when they are first needed.
// Errors: net::resolve_error with getaddrinfo's own code and text; ringloop::error for the rest.
// Thread: the scheduler's.
// Cancel: at once; a lookup that has begun goes on without anybody who waits for it.
#pragma once

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "ringloop/net/endpoint.hpp"
#include "ringloop/net/tcp_stream.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net {

class resolve_error : public std::runtime_error {
  public:
    resolve_error(const std::string& host, int code);
    [[nodiscard]] int code() const noexcept { return code_; }  // EAI_NONAME, EAI_AGAIN …

  private:
    int code_;
};

// The addresses of `host`, best first (RFC 6724), each once; never empty.
[[nodiscard]] task<std::vector<endpoint>> resolve(std::string host, std::uint16_t port);

struct connect_options {
    // How long an address has to answer before the next is tried beside it (RFC 8305).
    std::chrono::nanoseconds attempt_delay = std::chrono::milliseconds(250);
};

// Happy eyeballs: tries the addresses in turn, families alternating, each with a head start; the
// first connection wins and the other attempts are given up. If all fail, throws what the first
// one failed with.
[[nodiscard]] task<tcp_stream> connect(std::string host, std::uint16_t port,
                                       connect_options options = {});
[[nodiscard]] task<tcp_stream> connect(std::vector<endpoint> addresses,
                                       connect_options options = {});

}  // namespace ringloop::net
