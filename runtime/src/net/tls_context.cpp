// tls_context: options into an SSL_CTX, checked, with all that must not be left to defaults set:
// verification, the least version, no renegotiation, nobody asked for a password.
#include <openssl/err.h>

#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>

#include "net/tls_resumption.hpp"
#include "net/tls_session.hpp"
#include "ringloop/net/tls.hpp"

namespace ringloop::net {
namespace {

using detail::tls_settings;

void require(long result, const std::string& doing) {
    if (result != 1) detail::throw_taken(doing);
}

std::string wire_form(const std::vector<std::string>& names) {
    std::string wire;
    for (const std::string& name : names) {
        if (name.empty() || name.size() > 255)
            throw std::invalid_argument("ringloop: an ALPN name has 1 to 255 bytes");
        wire += static_cast<char>(name.size());
        wire += name;
    }
    return wire;
}

int no_password(char*, int, int, void*) noexcept {
    return -1;
}

std::shared_ptr<tls_settings> make_settings(const SSL_METHOD* method, tls_version minimum) {
    ERR_clear_error();
    auto made = std::make_shared<tls_settings>();
    made->context.reset(SSL_CTX_new(method));
    SSL_CTX* context = made->context.get();
    if (context == nullptr) throw std::bad_alloc();
    require(SSL_CTX_set_min_proto_version(context, static_cast<int>(minimum)),
            "TLS: set the least version");
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(context, &no_password);
    return made;
}

void load_identity(SSL_CTX* context, const std::string& certificate, const std::string& key) {
    require(SSL_CTX_use_certificate_chain_file(context, certificate.c_str()),
            "TLS: read the certificate chain " + certificate);
    require(SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM),
            "TLS: read the key " + key);
}

void load_authorities(SSL_CTX* context, const std::string& file, const std::string& directory) {
    if (!file.empty())
        require(SSL_CTX_load_verify_file(context, file.c_str()),
                "TLS: read the authorities " + file);
    if (directory.empty()) return;
    std::error_code code;
    if (!std::filesystem::is_directory(directory, code)) {
        if (!code) code = std::make_error_code(std::errc::not_a_directory);
        throw error(code, ("TLS: look for authorities in " + directory).c_str());
    }
    require(SSL_CTX_load_verify_dir(context, directory.c_str()),
            "TLS: look for authorities in " + directory);
}

void load_revocations(SSL_CTX* context, const std::string& file) {
    if (file.empty()) return;
    X509_STORE* store = SSL_CTX_get_cert_store(context);
    X509_LOOKUP* reader = X509_STORE_add_lookup(store, X509_LOOKUP_file());
    if (reader == nullptr) throw std::bad_alloc();
    if (X509_load_crl_file(reader, file.c_str(), X509_FILETYPE_PEM) <= 0)
        detail::throw_taken("TLS: read the withdrawn certificates " + file);
    require(X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL),
            "TLS: look for withdrawn certificates");
}

// Server's: the first of its own names that the client offers.
int choose_alpn(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                const unsigned char* offered, unsigned offered_size, void* context) noexcept {
    const std::string& own = static_cast<const tls_settings*>(context)->alpn;
    unsigned char* name = nullptr;
    const int found = SSL_select_next_proto(
        &name, chosen_size, reinterpret_cast<const unsigned char*>(own.data()),
        static_cast<unsigned>(own.size()), offered, offered_size);
    if (found != OPENSSL_NPN_NEGOTIATED) return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = name;
    return SSL_TLSEXT_ERR_OK;
}

void ask_for_certificates(SSL_CTX* context, const tls_server_options& options) {
    const bool asks = options.client_certificate != tls_client_certificate::not_asked;
    if (asks == (options.client_ca_file.empty() && options.client_ca_directory.empty()))
        throw std::invalid_argument(
            "ringloop: a TLS server that asks for client certificates needs client_ca_file or "
            "client_ca_directory, and one that has them must ask");
    if (!asks && !options.client_crl_file.empty())
        throw std::invalid_argument(
            "ringloop: client_crl_file is for a TLS server that asks for client certificates");
    if (!asks) return;
    load_revocations(context, options.client_crl_file);
    load_authorities(context, options.client_ca_file, options.client_ca_directory);
    if (!options.client_ca_file.empty()) {
        auto* names = SSL_load_client_CA_file(options.client_ca_file.c_str());
        if (names == nullptr)
            detail::throw_taken("TLS: read the authorities " + options.client_ca_file);
        SSL_CTX_set_client_CA_list(context, names);
    }
    const bool required = options.client_certificate == tls_client_certificate::required;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | (required ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0),
                       nullptr);
}

}  // namespace

tls_context::tls_context(std::shared_ptr<const tls_settings> settings) noexcept
    : settings_(std::move(settings)) {}

tls_context tls_context::client() {
    return client(tls_client_options());
}

tls_context tls_context::client(const tls_client_options& options) {
    auto made = make_settings(TLS_client_method(), options.minimum);
    SSL_CTX* context = made->context.get();
    made->verifies = !options.insecure_accept_any_certificate;
    SSL_CTX_set_verify(context, made->verifies ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    if (options.ca_file.empty() && options.ca_directory.empty()) {
        require(SSL_CTX_set_default_verify_paths(context), "TLS: find the system's authorities");
    } else {
        load_authorities(context, options.ca_file, options.ca_directory);
    }
    if (!made->verifies && !options.crl_file.empty())
        throw std::invalid_argument(
            "ringloop: a TLS client that accepts any certificate has no use for a crl_file");
    load_revocations(context, options.crl_file);
    if (options.sessions_max != 0) {
        made->sessions = std::make_shared<detail::tls_resumption>(options.sessions_max);
        detail::keep_sessions(context);
    }
    if (options.certificate_file.empty() != options.key_file.empty())
        throw std::invalid_argument("ringloop: a TLS certificate needs its key, a key its chain");
    if (!options.key_file.empty())
        load_identity(context, options.certificate_file, options.key_file);
    const std::string names = wire_form(options.alpn);
    if (!names.empty() &&
        SSL_CTX_set_alpn_protos(context, reinterpret_cast<const unsigned char*>(names.data()),
                                static_cast<unsigned>(names.size())) != 0)
        throw std::bad_alloc();  // 0 is its success
    return tls_context(std::move(made));
}

tls_context tls_context::server(const tls_server_options& options) {
    auto made = make_settings(TLS_server_method(), options.minimum);
    SSL_CTX* context = made->context.get();
    made->is_client = false;
    if (options.certificate_file.empty() || options.key_file.empty())
        throw std::invalid_argument("ringloop: a TLS server needs a certificate and its key");
    load_identity(context, options.certificate_file, options.key_file);
    ask_for_certificates(context, options);
    // Tickets of ours are good for us alone, whatever context a client saw first.
    static constexpr unsigned char name[] = "ringloop";
    require(SSL_CTX_set_session_id_context(context, name, sizeof name - 1),
            "TLS: name the sessions");
    made->alpn = wire_form(options.alpn);
    if (!made->alpn.empty()) SSL_CTX_set_alpn_select_cb(context, &choose_alpn, made.get());
    return tls_context(std::move(made));
}

}  // namespace ringloop::net
