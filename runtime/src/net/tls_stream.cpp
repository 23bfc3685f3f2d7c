// tls_stream: a handle of its session. See ringloop/net/tls.hpp and net/tls_session.hpp.
#include <openssl/x509.h>

#include <stdexcept>
#include <utility>

#include "net/tls_session.hpp"
#include "ringloop/net/tls.hpp"
#include "ringloop/when.hpp"

namespace ringloop::net {
namespace {

template <class Stream>
std::unique_ptr<detail::tls_session> begin(std::shared_ptr<const detail::tls_settings> settings,
                                           bool as_client, Stream stream, std::string_view host) {
    if (settings->is_client != as_client)
        throw std::invalid_argument(as_client ? "ringloop: tls_stream::connect() needs a client's "
                                                "context"
                                              : "ringloop: tls_stream::accept() needs a server's "
                                                "context");
    return std::make_unique<detail::tls_session>(std::move(settings), std::move(stream), host);
}

// DER by one of OpenSSL's i2d_ functions.
template <class Object>
std::vector<std::byte> der_of(const Object* object, int (*encode)(const Object*, unsigned char**)) {
    const int size = encode(object, nullptr);
    if (size < 0) throw std::bad_alloc();
    std::vector<std::byte> der(static_cast<std::size_t>(size));
    auto* place = reinterpret_cast<unsigned char*>(der.data());
    if (encode(object, &place) != size) throw std::bad_alloc();
    return der;
}

}  // namespace

tls_stream::tls_stream() noexcept = default;
tls_stream::tls_stream(tls_stream&& other) noexcept = default;
tls_stream& tls_stream::operator=(tls_stream&& other) noexcept = default;
tls_stream::~tls_stream() = default;
tls_stream::tls_stream(std::unique_ptr<detail::tls_session> session) noexcept
    : session_(std::move(session)) {}

task<tls_stream> tls_stream::shake_hands(std::unique_ptr<detail::tls_session> session) {
    co_await session->handshake();
    co_return tls_stream(std::move(session));
}

task<tls_stream> tls_stream::connect(const tls_context& context, tcp_stream stream,
                                     std::string_view host) {
    stream.set_no_delay(true);
    return shake_hands(begin(context.settings_, true, std::move(stream), host));
}

task<tls_stream> tls_stream::connect(const tls_context& context, unix_stream stream,
                                     std::string_view host) {
    return shake_hands(begin(context.settings_, true, std::move(stream), host));
}

task<tls_stream> tls_stream::accept(const tls_context& context, tcp_stream stream) {
    stream.set_no_delay(true);
    return shake_hands(begin(context.settings_, false, std::move(stream), {}));
}

task<tls_stream> tls_stream::accept(const tls_context& context, unix_stream stream) {
    return shake_hands(begin(context.settings_, false, std::move(stream), {}));
}

detail::tls_session& tls_stream::session() const {
    if (session_ == nullptr)
        throw std::logic_error("ringloop: the TLS stream is closed, or was moved from");
    return *session_;
}

task<std::size_t> tls_stream::read_some(std::span<std::byte> into) {
    return session().read_some(into);
}

task<void> tls_stream::write_all(std::span<const std::byte> bytes) {
    return session().write_all(bytes);
}

task<void> tls_stream::write_all(std::string_view text) {
    return session().write_all(std::as_bytes(std::span(text)));
}

task<std::size_t> tls_stream::write_some(std::span<const std::byte> bytes) {
    return session().write_some(bytes);
}

task<void> tls_stream::close_notify() {
    return session().close_notify();
}

task<void> tls_stream::update_keys() {
    return session().update_keys();
}

task<bool> tls_stream::shutdown(std::chrono::nanoseconds limit) {
    session().must_be_idle();
    const std::unique_ptr<detail::tls_session> ending = std::move(session_);
    try {
        co_return co_await with_timeout(limit, ending->shutdown());
    } catch (const timed_out&) {  // silent, or slow
        co_return false;
    } catch (const error&) {  // gone, or failed: what went wrong was or is told by false
        co_return false;
    }
}

void tls_stream::close() noexcept {
    session_.reset();
}

std::string_view tls_stream::alpn() const {
    const unsigned char* name = nullptr;
    unsigned size = 0;
    SSL_get0_alpn_selected(session().ssl(), &name, &size);
    return {reinterpret_cast<const char*>(name), size};
}

std::string_view tls_stream::version() const {
    return SSL_get_version(session().ssl());
}

std::string_view tls_stream::cipher() const {
    return SSL_get_cipher_name(session().ssl());
}

bool tls_stream::resumed() const {
    return SSL_session_reused(session().ssl()) == 1;
}

std::vector<std::byte> tls_stream::peer_certificate() const {
    const X509* certificate = SSL_get0_peer_certificate(session().ssl());
    if (certificate == nullptr) return {};
    return der_of(certificate, &i2d_X509);
}

std::vector<std::byte> tls_stream::peer_subject() const {
    const X509* certificate = SSL_get0_peer_certificate(session().ssl());
    if (certificate == nullptr) return {};
    return der_of(X509_get_subject_name(certificate), &i2d_X509_NAME);
}

int tls_stream::native_handle() const noexcept {
    return session_ != nullptr ? session_->socket() : -1;
}

}  // namespace ringloop::net
