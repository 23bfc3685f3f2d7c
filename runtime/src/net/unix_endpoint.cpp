// Addresses of Unix sockets. The size decides what an address is: an abstract name is not ended by
// a null, a path is, and no name at all has the family alone.
#include "ringloop/net/unix_endpoint.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>

namespace ringloop::net {
namespace {

constexpr std::size_t head_size = offsetof(sockaddr_un, sun_path);
constexpr std::size_t path_max = sizeof(sockaddr_un::sun_path) - 1;

}  // namespace

unix_endpoint::unix_endpoint() noexcept : size_(head_size) {
    std::memset(&storage_, 0, sizeof storage_);
    storage_.sun_family = AF_UNIX;
}

unix_endpoint::unix_endpoint(std::string_view path) : unix_endpoint() {
    const bool abstract = !path.empty() && path.front() == '\0';
    if (path.size() > path_max)
        throw std::invalid_argument("ringloop: a Unix socket's path of " +
                                    std::to_string(path.size()) + " bytes; the kernel takes " +
                                    std::to_string(path_max));
    if (!abstract && path.find('\0') != std::string_view::npos)
        throw std::invalid_argument("ringloop: a null within a Unix socket's path");
    std::copy(path.begin(), path.end(), storage_.sun_path);
    if (!path.empty()) size_ = static_cast<socklen_t>(head_size + path.size() + (abstract ? 0 : 1));
}

unix_endpoint::unix_endpoint(const sockaddr* address, socklen_t size) : unix_endpoint() {
    if (address->sa_family != AF_UNIX || size < head_size)
        throw std::invalid_argument("ringloop: the socket address is no Unix socket's");
    size_ = std::min<socklen_t>(size, sizeof storage_);
    std::memcpy(&storage_, address, size_);
}

bool unix_endpoint::is_abstract() const noexcept {
    return size_ > head_size && storage_.sun_path[0] == '\0';
}

std::string unix_endpoint::path() const {
    std::string text(storage_.sun_path, size_ - head_size);
    if (!is_abstract()) text.resize(std::strlen(text.c_str()));
    return text;
}

std::string unix_endpoint::to_string() const {
    std::string text = path();
    if (text.empty()) return "(no name)";
    std::replace(text.begin(), text.end(), '\0', '@');
    return text;
}

}  // namespace ringloop::net
