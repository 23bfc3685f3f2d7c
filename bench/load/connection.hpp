// connection: one keep-alive HTTP/1.1 connection with one request in flight, non-blocking.
//
// Answers need a Content-Length; that is all of HTTP this client knows. Whatever is not a 200 with
// the expected body throws, naming what came instead.
#pragma once

#include <cstdint>
#include <string>

#include "plan.hpp"

namespace load {

class connection {
  public:
    explicit connection(std::uint16_t port);  // connects to 127.0.0.1
    ~connection();
    connection(const connection&) = delete;
    connection& operator=(const connection&) = delete;

    [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
    void begin(kind& what);  // sends as much as goes
    // Moves bytes both ways; true when the answer is complete and was right.
    [[nodiscard]] bool advance();
    [[nodiscard]] bool wants_write() const noexcept { return sent_ < what_->request.size(); }
    [[nodiscard]] kind& current() const noexcept { return *what_; }
    [[nodiscard]] std::int64_t began_ns() const noexcept { return began_ns_; }

  private:
    void send_some();
    [[nodiscard]] bool check_answer();

    int descriptor_;
    kind* what_ = nullptr;
    std::size_t sent_ = 0;
    std::string answer_;
    std::size_t head_size_ = 0;  // 0: the head is not complete yet
    std::size_t body_size_ = 0;
    std::int64_t began_ns_ = 0;
};

}  // namespace load
