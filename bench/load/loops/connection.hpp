// connection: one client of the server under load: its handshakes, its requests, their answers.
//
// Non-blocking; whoever owns it watches descriptor() and calls advance() when something is there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "channel.hpp"
#include "message.hpp"
#include "options.hpp"

namespace load {

class client {
  public:
    client(const options& wanted, std::size_t number, tls_client* tls);

    void open();   // a new connection instead of the one before; its life begins now
    void begin();  // the next request
    // Moves bytes both ways. True when the answer is complete and was right, or, in lives that end
    // with it, the server closed. Throws at a wrong answer.
    [[nodiscard]] bool advance();
    // Datagrams are lost now and then: asks once more what has no answer yet.
    void repeat();

    [[nodiscard]] int descriptor() const noexcept { return channel_->descriptor(); }
    [[nodiscard]] bool wants_write() const noexcept { return ready_ && unsent() != 0; }
    [[nodiscard]] bool waits() const noexcept { return waits_; }  // for an answer
    [[nodiscard]] std::int64_t began_ns() const noexcept { return began_ns_; }

  private:
    [[nodiscard]] std::size_t unsent() const noexcept;
    void send_some();
    [[nodiscard]] bool get_ready();
    [[nodiscard]] bool take(const char* bytes, std::size_t size);
    [[nodiscard]] std::size_t take_greeting(const char* bytes, std::size_t size);

    const options* wanted_;
    tls_client* tls_;
    message message_;
    std::optional<channel> channel_;
    bool ready_ = false;    // TLS's handshake is over
    bool greeted_ = false;  // the upgrade was answered
    bool waits_ = false;
    std::string greeting_answer_;
    std::size_t sent_ = 0;
    std::size_t got_ = 0;
    std::int64_t began_ns_ = 0;
};

}  // namespace load
