// OpenSSL's errors as exceptions, and its BIO over our memory. See net/tls_openssl.hpp.
#include "net/tls_openssl.hpp"

#include <openssl/err.h>

#include <algorithm>
#include <new>
#include <utility>

namespace ringloop::net {
namespace {

class openssl_category : public std::error_category {
  public:
    [[nodiscard]] const char* name() const noexcept override { return "openssl"; }
    [[nodiscard]] std::string message(int code) const override {
        const char* reason = ERR_reason_error_string(static_cast<unsigned>(code));
        return reason != nullptr ? reason : "OpenSSL error " + std::to_string(code);
    }
};

std::error_code code_of(unsigned long error) {
    static const openssl_category category;
    return {static_cast<int>(error), category};
}

}  // namespace

tls_error::tls_error(std::error_code code, const std::string& what,
                     detail::tls_error_details details)
    : error(code, what.c_str()),
      details_(std::make_shared<const detail::tls_error_details>(std::move(details))) {}

bool tls_error::is_cut() const noexcept {
    return details_->cut;
}
const std::string& tls_error::verification() const noexcept {
    return details_->verification;
}
const std::string& tls_error::host() const noexcept {
    return details_->host;
}

namespace detail {
namespace {

std::string sentence(const std::string& doing, const tls_error_details& details) {
    std::string text = doing;
    if (!details.host.empty()) text += " with " + details.host;
    if (!details.verification.empty()) text += ": " + details.verification;
    return text;
}

tls_wire& wire_of(BIO* bio) noexcept {
    return *static_cast<tls_wire*>(BIO_get_data(bio));
}

int read_wire(BIO* bio, char* into, std::size_t size, std::size_t* count) noexcept {
    BIO_clear_retry_flags(bio);
    buffer_lease& input = wire_of(bio).input;
    *count = std::min(size, input.size());
    if (*count == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    std::copy_n(input.bytes().begin(), *count, reinterpret_cast<std::byte*>(into));
    input.consume(*count);
    if (input.size() == 0) input.release();
    return 1;
}

// Fails for want of memory only.
int write_wire(BIO* bio, const char* from, std::size_t size, std::size_t* count) noexcept {
    BIO_clear_retry_flags(bio);
    *count = 0;
    try {
        wire_of(bio).output.add(std::as_bytes(std::span(from, size)));
    } catch (const std::bad_alloc&) {
        return 0;  // the session makes a bad_alloc of it again
    }
    *count = size;
    return 1;
}

long control_wire(BIO*, int command, long, void*) noexcept {
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD* make_method() {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "ringloop");
    if (made == nullptr || BIO_meth_set_read_ex(made, &read_wire) != 1 ||
        BIO_meth_set_write_ex(made, &write_wire) != 1 ||
        BIO_meth_set_ctrl(made, &control_wire) != 1)
        throw std::bad_alloc();
    return made;
}

}  // namespace

tls_error take_error(const std::string& doing, tls_error_details details) {
    const unsigned long first = ERR_get_error();
    ERR_clear_error();
    return {code_of(first), sentence(doing, details), std::move(details)};
}

void throw_taken(const std::string& doing) {
    const unsigned long first = ERR_peek_error();
    if (!ERR_SYSTEM_ERROR(first)) throw take_error(doing);
    ERR_clear_error();
    throw error(std::error_code(ERR_GET_REASON(first), std::system_category()), doing.c_str());
}

tls_error cut_error(const std::string& doing, const std::string& host) {
    tls_error_details details;
    details.host = host;
    details.cut = true;
    const unsigned long code = ERR_PACK(ERR_LIB_SSL, 0, SSL_R_UNEXPECTED_EOF_WHILE_READING);
    return {code_of(code), sentence(doing, details), std::move(details)};
}

BIO* make_bio(tls_wire& wire) {
    static BIO_METHOD* const method = make_method();
    BIO* bio = BIO_new(method);
    if (bio == nullptr) throw std::bad_alloc();
    BIO_set_data(bio, &wire);
    BIO_set_init(bio, 1);
    return bio;
}

}  // namespace detail
}  // namespace ringloop::net
