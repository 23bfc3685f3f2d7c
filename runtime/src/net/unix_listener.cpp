// Listening on a Unix socket: the socket's set-up, and its path's end.
#include "ringloop/net/unix_listener.hpp"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/make_state.hpp"

namespace ringloop::net {

using ringloop::detail::checked;

namespace detail {

bound_path::bound_path(std::string path) : path_(std::move(path)) {
    struct stat status {};
    if (lstat(path_.c_str(), &status) != 0) return;
    device_ = status.st_dev;
    inode_ = status.st_ino;
}

bound_path::~bound_path() {
    struct stat status {};
    if (lstat(path_.c_str(), &status) != 0) return;
    if (status.st_dev != device_ || status.st_ino != inode_) return;
    std::error_code ignored;  // a folder that may not be written any more: the path stays
    std::filesystem::remove(path_, ignored);
}

}  // namespace detail

template <class Stream>
basic_unix_listener<Stream>::basic_unix_listener(scheduler& home, int socket)
    : state_(detail::make_state<detail::listener_state>(home, socket)) {}

template <class Stream>
detail::listener_state& basic_unix_listener<Stream>::state() const {
    if (state_ == nullptr || state_->socket() < 0)
        throw std::logic_error(
            "ringloop: the listener is closed, was moved from, or its scheduler has ended");
    if (scheduler* const here = scheduler::current(); here != nullptr && here != &state_->home())
        throw std::logic_error("ringloop: the listener belongs to another scheduler");
    return *state_;
}

template <class Stream>
basic_unix_listener<Stream> basic_unix_listener<Stream>::bind(const unix_endpoint& at,
                                                              const unix_listen_options& options) {
    scheduler& home = ringloop::detail::running_scheduler();
    driver& io = home.io();
    const bool has_path = !at.path().empty() && !at.is_abstract();
    std::error_code absent;
    if (has_path && options.replace && std::filesystem::is_socket(at.path(), absent))
        std::filesystem::remove(at.path(), absent);
    constexpr int kind = std::is_same_v<Stream, unix_stream> ? SOCK_STREAM : SOCK_SEQPACKET;
    const int socket = checked(io.make_socket(AF_UNIX, kind, 0), "make a socket");
    basic_unix_listener listener(home, socket);
    const std::string where = "bind to " + at.to_string();
    checked(io.bind(socket, at.address(), at.size()), where.c_str());
    if (has_path && !options.keep_path)
        listener.path_ = std::make_unique<detail::bound_path>(at.path());
    checked(io.listen(socket, options.backlog), "listen");
    return listener;
}

template <class Stream>
unix_endpoint basic_unix_listener<Stream>::local() const {
    return detail::address_of<unix_endpoint>(state().io(), native_handle(), &driver::local_address,
                                             "local address");
}

template class basic_unix_listener<unix_stream>;
template class basic_unix_listener<unix_seqpacket>;

}  // namespace ringloop::net
