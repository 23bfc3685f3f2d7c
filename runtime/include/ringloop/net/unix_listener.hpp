// unix_listener, unix_seqpacket_listener: a bound, listening Unix socket, of streams or of
// messages.
//
// Owns the descriptor and the accept armed on it; the destructor takes that back, closes the
// connections that nobody took, closes, and removes the path that it was bound to, unless somebody
// else has put a socket there meanwhile. Move-only. Thread: that of its scheduler. One accept() at
// a time (std::logic_error).
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>

#include "ringloop/net/detail/listener_state.hpp"
#include "ringloop/net/seqpacket.hpp"
#include "ringloop/net/unix_endpoint.hpp"
#include "ringloop/net/unix_stream.hpp"

namespace ringloop::net {

struct unix_listen_options {
    int backlog = 1024;
    bool replace = false;    // removes a socket that is in the way at the path, whoever made it
    bool keep_path = false;  // leaves the path behind at the end
};

namespace detail {
// Removes the path at its end, if it is still that inode.
class bound_path {
  public:
    explicit bound_path(std::string path);
    ~bound_path();
    bound_path(const bound_path&) = delete;
    bound_path& operator=(const bound_path&) = delete;

  private:
    const std::string path_;
    dev_t device_ = 0;
    ino_t inode_ = 0;
};
}  // namespace detail

template <class Stream>
class basic_unix_listener {
  public:
    // On the running scheduler. Throws ringloop::error, EADDRINUSE if something is at the path.
    [[nodiscard]] static basic_unix_listener bind(const unix_endpoint& at,
                                                  const unix_listen_options& options = {});
    basic_unix_listener(basic_unix_listener&&) noexcept = default;
    basic_unix_listener& operator=(basic_unix_listener&&) noexcept = default;

    // The next connection; waits while descriptors or memory are short. Cancel loses nothing: a
    // connection that came meanwhile is the next accept's.
    [[nodiscard]] detail::accept_await<Stream> accept() {
        return detail::accept_await<Stream>(state());
    }
    void close() noexcept {
        state_.reset();
        path_.reset();
    }
    [[nodiscard]] unix_endpoint local() const;
    [[nodiscard]] int native_handle() const noexcept { return state_ ? state_->socket() : -1; }

  private:
    basic_unix_listener(scheduler& home, int socket);
    detail::listener_state& state() const;
    std::unique_ptr<detail::bound_path> path_;  // removed after the socket is closed
    ringloop::detail::resident_ptr<detail::listener_state> state_;
};

extern template class basic_unix_listener<unix_stream>;
extern template class basic_unix_listener<unix_seqpacket>;

using unix_listener = basic_unix_listener<unix_stream>;
using unix_seqpacket_listener = basic_unix_listener<unix_seqpacket>;

}  // namespace ringloop::net
