// The loops between OpenSSL and the socket. See net/tls_session.hpp.
#include "net/tls_session.hpp"

#include <openssl/err.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <cassert>
#include <new>
#include <stdexcept>
#include <utility>

#include "net/tls_resumption.hpp"
#include "ringloop/error.hpp"

namespace ringloop::net::detail {
namespace {

constexpr std::size_t record_max = 16384;
constexpr std::size_t batch_max = 4 * record_max;  // encrypted before it is sent
// Above what writes queue: a reader stops there, for its peer asks and asks for answers that it
// does not read.
constexpr std::size_t answers_max = 2 * batch_max;

// Marks a verb as under way.
class busy {
  public:
    busy(bool& mark, const char* refusal) : mark_(mark) {
        if (mark) throw std::logic_error(refusal);
        mark = true;
    }
    ~busy() { mark_ = false; }
    busy(const busy&) = delete;
    busy& operator=(const busy&) = delete;

  private:
    bool& mark_;
};
constexpr const char* one_reader = "ringloop: another read of this TLS stream is under way";
constexpr const char* one_writer = "ringloop: another write to this TLS stream is under way";

// An await that begins after a stop request must not begin.
struct unless_stopped : current_scope {
    void await_resume() const {
        if (scope != nullptr && scope->stop_requested()) throw operation_cancelled();
    }
};

}  // namespace

tls_session::tls_session(std::shared_ptr<const tls_settings> settings, byte_stream&& stream,
                         std::string_view host)
    : settings_(std::move(settings)),
      stream_(std::move(stream)),
      host_(host),
      wire_(stream_.state()),
      ssl_(SSL_new(settings_->context.get())) {
    if (ssl_ == nullptr) throw std::bad_alloc();
    BIO* bio = make_bio(wire_);
    SSL_set_bio(ssl_.get(), bio, bio);
    if (settings_->is_client) {
        expect(host);
        resume();
        SSL_set_connect_state(ssl_.get());
    } else {
        SSL_set_accept_state(ssl_.get());
    }
}

void tls_session::resume() {
    if (settings_->sessions == nullptr || host_.empty()) return;
    SSL_set_app_data(ssl_.get(), this);
    if (const auto earlier = settings_->sessions->take(host_)) {
        // One that does not fit any more is no loss: the handshake is then a whole one.
        static_cast<void>(SSL_set_session(ssl_.get(), earlier.get()));
        ERR_clear_error();
    }
}

bool tls_session::keep(SSL_SESSION* session) noexcept {
    if (SSL_SESSION_is_resumable(session) != 1) return false;
    try {
        settings_->sessions->keep(host_, ssl_session_pointer(session));
    } catch (const std::bad_alloc&) {
        // Freed with what was to hold it; a session fewer to resume.
    }
    return true;
}

void keep_sessions(SSL_CTX* context) noexcept {
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context, [](SSL* ssl, SSL_SESSION* session) noexcept {
        auto* const owner = static_cast<tls_session*>(SSL_get_app_data(ssl));
        return owner != nullptr && owner->keep(session) ? 1 : 0;
    });
}

tls_session::~tls_session() {
    assert(!reading_ && !writing_ && "a TLS stream was closed under its reader or writer");
    // A session goes on though its stream was cut (RFC 5246, 7.2.1), but not after a failure:
    // OpenSSL then takes it back, as it would here.
    if (!failure_) SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

// A name goes to the server as well (SNI), and a dot at its end is DNS's alone; an address does
// not.
void tls_session::expect(std::string_view host) {
    if (host.empty() && !settings_->verifies) return;
    if (host.ends_with('.')) host.remove_suffix(1);
    const std::string name(host);
    if (name.empty() || name.find('\0') != std::string::npos)
        throw std::invalid_argument("ringloop: TLS needs the name of the host that is meant");
    X509_VERIFY_PARAM* rules = SSL_get0_param(ssl_.get());
    X509_VERIFY_PARAM_set_hostflags(rules, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (X509_VERIFY_PARAM_set1_ip_asc(rules, name.c_str()) == 1) return;
    ERR_clear_error();
    if (X509_VERIFY_PARAM_set1_host(rules, name.data(), name.size()) != 1 ||
        SSL_ctrl(ssl_.get(), SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(name.c_str())) != 1)
        throw std::invalid_argument("ringloop: TLS cannot ask for the host " + name);
}

template <class Call>
tls_session::progress tls_session::attempt(const char* doing, Call call) {
    if (failure_) std::rethrow_exception(failure_);
    ERR_clear_error();
    const int result = call(ssl_.get());
    switch (result > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl_.get(), result)) {
        case SSL_ERROR_NONE:
            return progress::made;
        case SSL_ERROR_WANT_READ:
            return progress::wants_bytes;
        case SSL_ERROR_ZERO_RETURN:
            return progress::ended;
        default:
            fail(doing);
    }
}

void tls_session::fail(const char* doing) {
    if (ERR_peek_error() == 0) {  // not OpenSSL's: our BIO has found no memory
        failure_ = std::make_exception_ptr(std::bad_alloc());
    } else {
        tls_error_details details;
        details.host = host_;
        const long verdict = SSL_get_verify_result(ssl_.get());
        if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_CERTIFICATE_VERIFY_FAILED)
            details.verification = X509_verify_cert_error_string(verdict);
        failure_ = std::make_exception_ptr(take_error(doing, std::move(details)));
    }
    wire_.output.push();  // the alert that tells the peer why
    std::rethrow_exception(failure_);
}

task<void> tls_session::receive(const char* doing) {
    if (receiving_) {
        co_await received_.wait();
        co_return;
    }
    received_.reset();
    struct turn {
        tls_session& session;
        explicit turn(tls_session& its_session) : session(its_session) {
            session.receiving_ = true;
        }
        ~turn() {  // also after a cancel or an error: then the other one tries
            session.receiving_ = false;
            session.received_.set();
        }
    };
    const turn mine(*this);
    buffer_lease arrived = co_await stream_.receive();
    if (!arrived && wire_.output.ended_connection()) wire_.output.check();
    if (!arrived) throw cut_error(doing, host_);
    wire_.input = std::move(arrived);
}

task<void> tls_session::handshake() {
    const busy reading(reading_, one_reader);
    const busy writing(writing_, one_writer);
    co_await unless_stopped();
    while (true) {
        const progress step = attempt("TLS handshake", &SSL_do_handshake);
        wire_.output.push();
        if (step == progress::made) co_return;
        if (step == progress::ended) throw cut_error("TLS handshake", host_);
        co_await receive("TLS handshake");
    }
}

task<std::size_t> tls_session::read_some(std::span<std::byte> into) {
    const busy reading(reading_, one_reader);
    co_await unless_stopped();
    if (into.empty()) co_return 0;
    std::size_t count = 0;
    while (true) {
        if (wire_.output.waiting() > answers_max) co_await wire_.output.drained();
        const progress step = attempt("TLS read", [&](SSL* ssl) {
            return SSL_read_ex(ssl, into.data(), into.size(), &count);
        });
        wire_.output.push();
        if (step == progress::made) co_return count;
        if (step == progress::ended) co_return 0;
        co_await receive("TLS read");
    }
}

void tls_session::must_be_open() const {
    if (notified_)
        throw std::logic_error("ringloop: a write to a TLS stream after its close_notify()");
}

std::size_t tls_session::encrypt(std::span<const std::byte> bytes) {
    std::size_t taken = 0;
    while (taken < bytes.size()) {
        std::size_t count = 0;
        const progress step = attempt("TLS write", [&](SSL* ssl) {
            return SSL_write_ex(ssl, bytes.data() + taken, bytes.size() - taken, &count);
        });
        if (step != progress::made) break;
        taken += count;
    }
    wire_.output.push();
    return taken;
}

task<void> tls_session::write_all(std::span<const std::byte> bytes) {
    const busy writing(writing_, one_writer);
    co_await unless_stopped();
    must_be_open();
    while (!bytes.empty()) {
        if (wire_.output.waiting() != 0) co_await wire_.output.drained();
        wire_.output.check();
        const std::size_t count = encrypt(bytes.first(std::min(bytes.size(), batch_max)));
        bytes = bytes.subspan(count);
        if (count == 0) co_await receive("TLS write");
    }
    if (wire_.output.waiting() != 0) co_await wire_.output.drained();
    wire_.output.check();
}

task<std::size_t> tls_session::write_some(std::span<const std::byte> bytes) {
    const busy writing(writing_, one_writer);
    co_await unless_stopped();
    must_be_open();
    if (bytes.empty()) co_return 0;
    if (wire_.output.waiting() != 0) co_await wire_.output.drained();
    wire_.output.check();
    std::size_t count = encrypt(bytes.first(std::min(bytes.size(), record_max)));
    while (count == 0) {
        co_await receive("TLS write");
        count = encrypt(bytes.first(std::min(bytes.size(), record_max)));
    }
    try {
        if (wire_.output.waiting() != 0) co_await wire_.output.drained();
    } catch (const operation_cancelled&) {
        co_return count;  // they are on their way
    }
    wire_.output.check();
    co_return count;
}

task<void> tls_session::close_notify() {
    const busy writing(writing_, one_writer);
    co_await unless_stopped();
    if (!notified_) {
        notified_ = true;
        attempt("TLS close_notify", [](SSL* ssl) {
            const int result = SSL_shutdown(ssl);
            return result == 0 ? 1 : result;  // 0: sent, and the peer's has not come
        });
        wire_.output.push();
    }
    if (wire_.output.waiting() != 0) co_await wire_.output.drained();
    wire_.output.check();
}

task<void> tls_session::update_keys() {
    const busy writing(writing_, one_writer);
    co_await unless_stopped();
    must_be_open();
    if (SSL_version(ssl_.get()) < TLS1_3_VERSION)
        throw std::logic_error("ringloop: TLS 1.2 has no update_keys()");
    attempt("TLS update_keys",
            [](SSL* ssl) { return SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED); });
    while (attempt("TLS update_keys", &SSL_do_handshake) == progress::wants_bytes)
        co_await receive("TLS update_keys");
    wire_.output.push();
    if (wire_.output.waiting() != 0) co_await wire_.output.drained();
    wire_.output.check();
}

task<bool> tls_session::shutdown() {
    co_await close_notify();
    std::array<std::byte, 512> dropped;
    std::size_t count = 1;
    while (count != 0) count = co_await read_some(dropped);
    co_return true;
}

void tls_session::must_be_idle() const {
    if (reading_) throw std::logic_error(one_reader);
    if (writing_) throw std::logic_error(one_writer);
}

}  // namespace ringloop::net::detail
