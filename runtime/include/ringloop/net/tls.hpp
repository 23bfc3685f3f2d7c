// tls_stream, tls_context: TLS 1.2 and 1.3 over a connected stream, by OpenSSL.
//
//     const auto trust = net::tls_context::client();          once per process or configuration
//     auto tcp = co_await net::connect("example.org", 443);
//     auto stream = co_await net::tls_stream::connect(trust, std::move(tcp), "example.org");
//     co_await stream.write_all("GET / HTTP/1.0\r\nHost: example.org\r\n\r\n");
//     while (const auto count = co_await stream.read_some(buffer)) …
//     co_await stream.shutdown();
//
// A client accepts a server whose chain of certificates leads to one that it trusts, and whose
// certificate is for the host that it asked for; nothing less by default. OpenSSL only computes, on
// memory: bytes travel by the scheduler's driver, as for every other stream.
//
// Thread: a stream's scheduler's; a context is shared by all, on any thread.
//
// Needs the CMake target ringloop::tls, which is there if OpenSSL 3.0 or newer was found.
//
// Errors: ringloop::error for sockets and files, its kind tls_error for what TLS objects to;
// std::invalid_argument and std::logic_error for mistakes of the caller's.
#pragma once

#ifndef RINGLOOP_TLS
#error "ringloop/net/tls.hpp: link ringloop::tls; it needs OpenSSL 3.0 (apt-get install libssl-dev)"
#endif

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ringloop/error.hpp"
#include "ringloop/net/tcp_stream.hpp"
#include "ringloop/net/unix_stream.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net {

namespace detail {
class tls_session;
struct tls_settings;
struct tls_error_details;
}  // namespace detail

// What OpenSSL objected to. code().message() is its reason: "wrong version number", "certificate
// verify failed", "tlsv13 alert certificate required" (what the peer objected to) …
class tls_error : public error {
  public:
    tls_error(std::error_code code, const std::string& what, detail::tls_error_details details);

    // The stream ended without the peer's close_notify: what was read so far may be less than what
    // was sent.
    [[nodiscard]] bool is_cut() const noexcept;
    // Why the peer's certificate was refused, X.509's sentence ("certificate has expired",
    // "hostname mismatch"); empty for all other errors.
    [[nodiscard]] const std::string& verification() const noexcept;
    // The host that the certificate had to be for; empty on a server.
    [[nodiscard]] const std::string& host() const noexcept;

  private:
    std::shared_ptr<const detail::tls_error_details> details_;
};

enum class tls_version : std::uint16_t { v1_2 = 0x0303, v1_3 = 0x0304 };

// Paths of PEM files. A key must not be encrypted: nobody is asked for a password.
struct tls_client_options {
    // Whom to trust, instead of the system's store (OpenSSL's, which follows SSL_CERT_FILE and
    // SSL_CERT_DIR): certificates in one file, or in a folder by OpenSSL's hashed names, or both.
    std::string ca_file;
    std::string ca_directory;
    // Protocols to offer by ALPN, best first: {"h2", "http/1.1"}.
    std::vector<std::string> alpn;
    // To show to a server that asks: own certificate first, then those that lead to the root.
    std::string certificate_file;
    std::string key_file;
    // A PEM file of certificates that were withdrawn: the lists (CRL) of every authority in the
    // chains to accept. A chain without its lists, or with one that is out of date, is refused.
    // Read once: newer lists need a new context.
    std::string crl_file;
    // How many sessions the context keeps in memory, to resume: the next connect() to the same host
    // then shakes hands without certificates and their signatures. A server usually gives two for
    // each handshake, and those of TLS 1.3 are good for one connection. What a resumed session
    // knows of its peer was verified in the first one.
    std::size_t sessions_max = 0;
    tls_version minimum = tls_version::v1_2;
    // Talks to anybody, also to who listens in between. For tests.
    bool insecure_accept_any_certificate = false;
};

enum class tls_client_certificate : unsigned char { not_asked, optional, required };

struct tls_server_options {
    std::string certificate_file;  // own certificate first, then those that lead to the root
    std::string key_file;
    // Protocols to choose from by ALPN, best first. A client that offers others only is refused; to
    // one that offers none the choice is left open.
    std::vector<std::string> alpn;
    // Whose certificates clients may show; at least one of them where clients are asked. The
    // system's store is not used: it holds servers' authorities.
    tls_client_certificate client_certificate = tls_client_certificate::not_asked;
    std::string client_ca_file;
    std::string client_ca_directory;
    std::string client_crl_file;  // as a client's crl_file, for clients' certificates
    tls_version minimum = tls_version::v1_2;
};

// What many sessions share; never changes. A handle: copies are one context, which lives until the
// last session on it has ended. Any thread.
// Made by blocking reads of the files named. Throws ringloop::error for a file that cannot be read,
// tls_error for one that cannot be understood, std::invalid_argument for options that do not fit.
class tls_context {
  public:
    [[nodiscard]] static tls_context client();
    [[nodiscard]] static tls_context client(const tls_client_options& options);
    [[nodiscard]] static tls_context server(const tls_server_options& options);

  private:
    friend class tls_stream;
    explicit tls_context(std::shared_ptr<const detail::tls_settings> settings) noexcept;
    std::shared_ptr<const detail::tls_settings> settings_;
};

// A session. Owns the stream below. Move-only, also while a read or a write waits. The destructor
// closes at once, without a close_notify: the peer is told that the stream was cut. Thread: the
// scheduler's. One reader and one writer at a time (std::logic_error), from two coroutines if you
// like: a read answers the peer (new keys) by itself and never waits for the writer.
class tls_stream {
  public:
    // The handshake. `host` is a name or a numeric address; without a context that is insecure it
    // must not be empty (std::invalid_argument).
    // A TCP socket's TCP_NODELAY is set: else a server's first answer would wait for the ACK of
    // what ended the handshake.
    // Cancel, like every failure: the stream is closed. No time limit: with_timeout().
    [[nodiscard]] static task<tls_stream> connect(const tls_context& context, tcp_stream stream,
                                                  std::string_view host);
    [[nodiscard]] static task<tls_stream> connect(const tls_context& context, unix_stream stream,
                                                  std::string_view host);
    [[nodiscard]] static task<tls_stream> accept(const tls_context& context, tcp_stream stream);
    [[nodiscard]] static task<tls_stream> accept(const tls_context& context, unix_stream stream);

    tls_stream() noexcept;
    tls_stream(tls_stream&& other) noexcept;
    tls_stream& operator=(tls_stream&& other) noexcept;
    ~tls_stream();

    // Bytes read, at least one; 0 after the peer's close_notify (or for an empty span). Throws
    // tls_error if the stream ends without one (is_cut()), or after what is no TLS: nothing can be
    // read any more.
    // Cancel loses nothing: what arrives meanwhile comes with the next call.
    [[nodiscard]] task<std::size_t> read_some(std::span<std::byte> into);
    // Sends all of it; `bytes` stay alive and unchanged until the await ends. What is sent then is
    // with the kernel, as after a tcp_stream's write_all(). Nothing happens for no bytes.
    // Cancel: a prefix is sent, how long it is gets lost; nothing but shutdown() makes sense then.
    [[nodiscard]] task<void> write_all(std::span<const std::byte> bytes);
    [[nodiscard]] task<void> write_all(std::string_view text);
    // Sends a part, at least one byte and at most one record (16 KiB); returns how many.
    // Cancel loses nothing: a count is returned once its bytes are encrypted, and they are sent.
    [[nodiscard]] task<std::size_t> write_some(std::span<const std::byte> bytes);

    // Sends the close_notify: the peer reads its end, and nothing more can be written here; reads
    // go on. Counts as a write.
    // Cancel: it is sent all the same, as long as the stream lives.
    [[nodiscard]] task<void> close_notify();
    // The orderly end: sends the close_notify (unless it was), waits for the peer's, dropping what
    // it still sends, and closes. For `limit` at most, whatever the peer does. True if its
    // close_notify came: it has read all that was written here. False if it was silent, slow or
    // gone, or the session had failed: nobody knows. No read or write may be under way.
    // Cancel: closes at once.
    [[nodiscard]] task<bool> shutdown(std::chrono::nanoseconds limit = std::chrono::seconds(5));
    // Closes at once, like the destructor. A reader or writer that waits must have ended.
    void close() noexcept;

    // TLS 1.3: new keys for both directions, for connections that carry very much or for very
    // long. Counts as a write. Throws std::logic_error under TLS 1.2, which cannot.
    // Cancel: it is sent all the same.
    [[nodiscard]] task<void> update_keys();

    [[nodiscard]] std::string_view alpn() const;     // what was agreed on; empty: nothing
    [[nodiscard]] std::string_view version() const;  // "TLSv1.3"
    [[nodiscard]] std::string_view cipher() const;   // "TLS_AES_256_GCM_SHA384"
    [[nodiscard]] bool resumed() const;  // an earlier session's goes on: tls_client_options
    // DER. Empty if the peer showed none: a client that was not asked, or did not have to.
    [[nodiscard]] std::vector<std::byte> peer_certificate() const;
    [[nodiscard]] std::vector<std::byte> peer_subject() const;

    [[nodiscard]] explicit operator bool() const noexcept { return session_ != nullptr; }
    [[nodiscard]] int native_handle() const noexcept;  // of the stream below; -1 if closed

  private:
    explicit tls_stream(std::unique_ptr<detail::tls_session> session) noexcept;
    static task<tls_stream> shake_hands(std::unique_ptr<detail::tls_session> session);
    [[nodiscard]] detail::tls_session& session() const;
    std::unique_ptr<detail::tls_session> session_;
};

}  // namespace ringloop::net
