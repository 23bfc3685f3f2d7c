// Makes the certificates. See tls_certificates.hpp.
#include "unit/net/tls_certificates.hpp"

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

namespace test {
namespace {

constexpr long day = 24 * 3600;

template <auto Free>
struct freed_by {
    template <class T>
    void operator()(T* object) const noexcept {
        Free(object);
    }
};
using key_pointer = std::unique_ptr<EVP_PKEY, freed_by<&EVP_PKEY_free>>;
using certificate_pointer = std::unique_ptr<X509, freed_by<&X509_free>>;
using file_pointer = std::unique_ptr<BIO, freed_by<&BIO_free>>;

struct issued {
    key_pointer key;
    certificate_pointer certificate;
};

struct wish {
    const char* name;
    const char* alternatives = nullptr;           // subjectAltName
    const char* usage = "serverAuth,clientAuth";  // null: an authority
    long from = -day;
    long until = 30 * day;
};

void extend(X509* certificate, int kind, const char* value) {
    std::unique_ptr<X509_EXTENSION, freed_by<&X509_EXTENSION_free>> extension(
        X509V3_EXT_conf_nid(nullptr, nullptr, kind, value));
    REQUIRE(extension != nullptr);
    REQUIRE(X509_add_ext(certificate, extension.get(), -1) == 1);
}

// By itself where there is no issuer.
issued issue(const wish& wanted, const issued* issuer) {
    static long serial = 1;
    issued made{key_pointer(EVP_EC_gen("P-256")), certificate_pointer(X509_new())};
    X509* certificate = made.certificate.get();
    X509_set_version(certificate, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
    X509_gmtime_adj(X509_getm_notBefore(certificate), wanted.from);
    X509_gmtime_adj(X509_getm_notAfter(certificate), wanted.until);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>(wanted.name), -1, -1, 0);
    X509_set_issuer_name(
        certificate, issuer != nullptr ? X509_get_subject_name(issuer->certificate.get()) : name);
    X509_set_pubkey(certificate, made.key.get());
    if (wanted.usage == nullptr) {
        extend(certificate, NID_basic_constraints, "critical,CA:TRUE");
        extend(certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
    } else {
        extend(certificate, NID_ext_key_usage, wanted.usage);
    }
    if (wanted.alternatives != nullptr)
        extend(certificate, NID_subject_alt_name, wanted.alternatives);
    EVP_PKEY* signer = issuer != nullptr ? issuer->key.get() : made.key.get();
    REQUIRE(X509_sign(certificate, signer, EVP_sha256()) > 0);
    return made;
}

struct list_wish {
    long from = -day;
    long until = day;
    std::vector<const issued*> withdrawn = {};
};

std::unique_ptr<X509_CRL, freed_by<&X509_CRL_free>> list_of(const issued& issuer,
                                                            const list_wish& wanted) {
    std::unique_ptr<X509_CRL, freed_by<&X509_CRL_free>> made(X509_CRL_new());
    X509_CRL* list = made.get();
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(issuer.certificate.get()));
    std::unique_ptr<ASN1_TIME, freed_by<&ASN1_TIME_free>> time(ASN1_TIME_new());
    X509_gmtime_adj(time.get(), wanted.from);
    X509_CRL_set1_lastUpdate(list, time.get());
    for (const issued* each : wanted.withdrawn) {
        X509_REVOKED* entry = X509_REVOKED_new();
        X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(each->certificate.get()));
        X509_REVOKED_set_revocationDate(entry, time.get());
        REQUIRE(X509_CRL_add0_revoked(list, entry) == 1);
    }
    X509_gmtime_adj(time.get(), wanted.until);
    X509_CRL_set1_nextUpdate(list, time.get());
    X509_CRL_sort(list);
    REQUIRE(X509_CRL_sign(list, issuer.key.get(), EVP_sha256()) > 0);
    return made;
}

class world {
  public:
    world() {
        std::string name = "/tmp/ringloop-tls-XXXXXX";
        REQUIRE(mkdtemp(name.data()) != nullptr);
        made_.folder = name;
        const issued root = issue({"an authority", nullptr, nullptr}, nullptr);
        const issued other = issue({"another authority", nullptr, nullptr}, nullptr);
        made_.authority = keep("authority", root).certificate;
        made_.other_authority = keep("other-authority", other).certificate;
        const char* here = "DNS:server.test,DNS:*.wild.test,IP:127.0.0.1";
        made_.server = keep("server", issue({"server.test", here}, &root));
        made_.other_server = keep("other-server", issue({"other", "DNS:other.test"}, &root));
        made_.expired = keep("expired", issue({"e", here, "serverAuth", -2 * day, -day}, &root));
        made_.not_yet_valid =
            keep("not-yet-valid", issue({"n", here, "serverAuth", day, 2 * day}, &root));
        made_.self_signed = keep("self-signed", issue({"s", here}, nullptr));
        made_.of_other = keep("of-other", issue({"o", here}, &other));
        made_.for_clients_only = keep("clients-only", issue({"c", here, "clientAuth"}, &root));
        made_.client = keep("client", issue({"a client", nullptr, "clientAuth"}, &root));
        made_.expired_client =
            keep("expired-client", issue({"late", nullptr, "clientAuth", -2 * day, -day}, &root));
        made_.client_of_other =
            keep("client-of-other", issue({"stranger", nullptr, "clientAuth"}, &other));
        const issued revoked = issue({"server.test", here}, &root);
        const issued revoked_client = issue({"lost", nullptr, "clientAuth"}, &root);
        made_.revoked = keep("revoked", revoked);
        made_.revoked_client = keep("revoked-client", revoked_client);
        made_.withdrawn = keep_list("withdrawn", root, {.withdrawn = {&revoked, &revoked_client}});
        made_.outdated = keep_list("outdated", root, {.from = -2 * day, .until = -day});
        made_.withdrawn_by_other = keep_list("by-other", other, {});
        made_.encrypted_key = made_.folder + "/encrypted.key";
        const file_pointer file(BIO_new_file(made_.encrypted_key.c_str(), "w"));
        char word[] = "secret";
        REQUIRE(PEM_write_bio_PKCS8PrivateKey(file.get(), root.key.get(), EVP_aes_128_cbc(), word,
                                              6, nullptr, nullptr) == 1);
    }
    ~world() { std::filesystem::remove_all(made_.folder); }
    world(const world&) = delete;
    world& operator=(const world&) = delete;
    [[nodiscard]] const tls_certificates& made() const noexcept { return made_; }

  private:
    tls_identity keep(const std::string& name, const issued& what) const {
        tls_identity paths{made_.folder + "/" + name + ".pem", made_.folder + "/" + name + ".key"};
        const file_pointer certificate(BIO_new_file(paths.certificate.c_str(), "w"));
        REQUIRE(PEM_write_bio_X509(certificate.get(), what.certificate.get()) == 1);
        const file_pointer key(BIO_new_file(paths.key.c_str(), "w"));
        REQUIRE(PEM_write_bio_PrivateKey(key.get(), what.key.get(), nullptr, nullptr, 0, nullptr,
                                         nullptr) == 1);
        return paths;
    }
    std::string keep_list(const std::string& name, const issued& issuer,
                          const list_wish& wanted) const {
        std::string path = made_.folder + "/" + name + ".crl";
        const file_pointer file(BIO_new_file(path.c_str(), "w"));
        REQUIRE(PEM_write_bio_X509_CRL(file.get(), list_of(issuer, wanted).get()) == 1);
        return path;
    }
    tls_certificates made_;
};

}  // namespace

const tls_certificates& tls_certificates::get() {
    static const world all;
    return all.made();
}

}  // namespace test
