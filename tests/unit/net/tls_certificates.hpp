// certificates: a made-up world of authorities, servers and clients, as PEM files in a folder that
// is made once a process, by OpenSSL, and removed at its end. No key is ever checked in.
#pragma once

#include <string>

namespace test {

struct tls_identity {
    std::string certificate;  // path of the chain
    std::string key;          // path
};

struct tls_certificates {
    std::string folder;
    std::string authority;        // path of the CA's certificate that issued all but …
    std::string other_authority;  // … what is `of_other`

    tls_identity server;        // for server.test, *.wild.test and 127.0.0.1
    tls_identity other_server;  // for other.test
    tls_identity expired;
    tls_identity not_yet_valid;
    tls_identity self_signed;
    tls_identity of_other;
    tls_identity for_clients_only;  // a server that shows a client's certificate
    tls_identity revoked;           // by `withdrawn`
    tls_identity client;            // CN: a client
    tls_identity expired_client;
    tls_identity client_of_other;
    tls_identity revoked_client;
    std::string encrypted_key;       // path
    std::string withdrawn;           // path of the authority's CRL
    std::string outdated;            // path of an earlier one, which is out of date
    std::string withdrawn_by_other;  // path of the other authority's CRL

    static const tls_certificates& get();
};

}  // namespace test
