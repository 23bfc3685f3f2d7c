// tls_session: what a tls_stream keeps at a fixed address: the socket, OpenSSL's state and the
// bytes between them.
//
// Each verb is a loop: let OpenSSL compute, send what it wrote, and where it wants more bytes,
// receive some. OpenSSL may want them for a write as well, while a message of the handshake's kind
// has come in part. So whoever is short of bytes receives, one at a time, and the other waits until
// it has: what comes is for both.
//
// The contract of each verb is in ringloop/net/tls.hpp. Thread: the scheduler's.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "net/tls_openssl.hpp"
#include "ringloop/net/byte_stream.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net::detail {

// A stream of any kind, taken over.
class taken_stream : public byte_stream {
  public:
    explicit taken_stream(byte_stream&& stream) noexcept : byte_stream(std::move(stream)) {}
    using byte_stream::state;
};

// Every session on this context that the peer lets us resume goes to its settings' `sessions`.
void keep_sessions(SSL_CTX* context) noexcept;

class tls_session {
  public:
    // Throws std::invalid_argument for a host that cannot be verified, std::logic_error for a
    // closed stream.
    tls_session(std::shared_ptr<const tls_settings> settings, byte_stream&& stream,
                std::string_view host);
    ~tls_session();
    tls_session(const tls_session&) = delete;
    tls_session& operator=(const tls_session&) = delete;

    [[nodiscard]] task<void> handshake();
    [[nodiscard]] task<std::size_t> read_some(std::span<std::byte> into);
    [[nodiscard]] task<void> write_all(std::span<const std::byte> bytes);
    [[nodiscard]] task<std::size_t> write_some(std::span<const std::byte> bytes);
    [[nodiscard]] task<void> close_notify();
    [[nodiscard]] task<void> update_keys();
    // Without its time limit.
    [[nodiscard]] task<bool> shutdown();
    // std::logic_error if a read or a write is under way.
    void must_be_idle() const;

    // The peer has given us `session` to resume. Returns whether we keep it.
    bool keep(SSL_SESSION* session) noexcept;
    [[nodiscard]] SSL* ssl() const noexcept { return ssl_.get(); }
    [[nodiscard]] int socket() const noexcept { return stream_.native_handle(); }

  private:
    enum class progress : unsigned char { made, wants_bytes, ended };

    void expect(std::string_view host);
    void resume();
    // One call of OpenSSL's. Throws what it objects to, now and ever after.
    template <class Call>
    progress attempt(const char* doing, Call call);
    [[noreturn]] void fail(const char* doing);
    // Until OpenSSL has something to go on with.
    [[nodiscard]] task<void> receive(const char* doing);
    // Encrypts `bytes` up to where OpenSSL wants to read first, and queues them; returns how many.
    [[nodiscard]] std::size_t encrypt(std::span<const std::byte> bytes);
    void must_be_open() const;

    std::shared_ptr<const tls_settings> settings_;
    taken_stream stream_;
    std::string host_;
    tls_wire wire_;
    ssl_pointer ssl_;
    std::exception_ptr failure_;  // what OpenSSL gave up with
    event received_;              // nobody receives: look again
    bool receiving_ = false;
    bool reading_ = false;
    bool writing_ = false;
    bool notified_ = false;  // the close_notify was sent
};

}  // namespace ringloop::net::detail
