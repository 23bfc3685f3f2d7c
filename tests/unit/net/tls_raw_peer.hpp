// raw_peer: a peer that is OpenSSL itself over a plain stream, for what our own side never does: an
// old version, fragments, floods, renegotiation. One coroutine at a time.
#pragma once

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <memory>

#include "unit/net/tls_support.hpp"

namespace test {

class raw_peer {
  public:
    raw_peer(rl::net::tcp_stream stream, bool as_server)
        : stream_(std::move(stream)),
          context_(SSL_CTX_new(as_server ? TLS_server_method() : TLS_client_method())),
          ssl_(nullptr),
          as_server_(as_server) {
        SSL_CTX_set_cipher_list(context_.get(), "DEFAULT@SECLEVEL=0");
        if (as_server) show(tls_certificates::get().server);
    }

    // ---- before the handshake
    void limit_to(int version) {
        SSL_CTX_set_min_proto_version(context_.get(), version);
        SSL_CTX_set_max_proto_version(context_.get(), version);
    }
    void show(const tls_identity& who) {
        REQUIRE(SSL_CTX_use_certificate_chain_file(context_.get(), who.certificate.c_str()) == 1);
        REQUIRE(SSL_CTX_use_PrivateKey_file(context_.get(), who.key.c_str(), SSL_FILETYPE_PEM) ==
                1);
    }
    // What ends the handshake is not sent: take_output().
    void hold_last() { holds_last_ = true; }
    [[nodiscard]] SSL_CTX* context() const { return context_.get(); }
    [[nodiscard]] SSL* ssl() const { return ssl_.get(); }
    [[nodiscard]] rl::net::tcp_stream& stream() { return stream_; }

    rl::task<std::size_t> handshake() {
        ssl_.reset(SSL_new(context_.get()));
        SSL_set_bio(ssl_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
        as_server_ ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
        co_await run([](SSL* ssl) { return SSL_do_handshake(ssl); });
        holds_last_ = false;
        co_return 0;
    }
    // Calls OpenSSL, sends what it wrote and receives what it wants until it has succeeded. Throws
    // raw_failure for its errors, and for the end of the stream.
    template <class Call>
    rl::task<void> run(Call call) {
        while (true) {
            ERR_clear_error();
            const int result = call(ssl_.get());
            const int kind = SSL_get_error(ssl_.get(), result);
            const std::string reason = reason_of_first();
            if (result > 0 && holds_last_) co_return;
            co_await send(take_output());
            if (result > 0) co_return;
            if (kind != SSL_ERROR_WANT_READ) throw raw_failure(reason);
            auto chunk = co_await stream_.receive();
            if (!chunk) throw raw_failure("end of the stream");
            BIO_write(SSL_get_rbio(ssl_.get()), chunk.bytes().data(),
                      static_cast<int>(chunk.size()));
        }
    }
    rl::task<void> write(std::string text) {
        co_await run(
            [&](SSL* ssl) { return SSL_write(ssl, text.data(), static_cast<int>(text.size())); });
    }
    rl::task<std::string> read() {
        std::array<char, 4096> memory;
        int count = 0;
        co_await run([&](SSL* ssl) { return count = SSL_read(ssl, memory.data(), 4096); });
        co_return std::string(memory.data(), static_cast<std::size_t>(count));
    }
    // What OpenSSL has written since the last time, to be sent by the test.
    [[nodiscard]] std::string take_output() {
        std::string bytes(BIO_ctrl_pending(SSL_get_wbio(ssl_.get())), '\0');
        if (!bytes.empty())
            BIO_read(SSL_get_wbio(ssl_.get()), bytes.data(), static_cast<int>(bytes.size()));
        return bytes;
    }
    rl::task<void> send(std::string bytes) {
        if (!bytes.empty()) co_await stream_.write_all(bytes);
    }

  private:
    struct free_ssl {
        void operator()(SSL* object) const { SSL_free(object); }
        void operator()(SSL_CTX* object) const { SSL_CTX_free(object); }
    };
    static std::string reason_of_first() {
        const char* reason = ERR_reason_error_string(ERR_peek_error());
        return reason != nullptr ? reason : "";
    }

    rl::net::tcp_stream stream_;
    std::unique_ptr<SSL_CTX, free_ssl> context_;
    std::unique_ptr<SSL, free_ssl> ssl_;
    bool as_server_;
    bool holds_last_ = false;
};

}  // namespace test
