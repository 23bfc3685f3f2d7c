// The list of kept sessions. See net/tls_resumption.hpp.
#include "net/tls_resumption.hpp"

#include <algorithm>
#include <utility>

namespace ringloop::net::detail {

void tls_resumption::keep(const std::string& host, ssl_session_pointer session) {
    std::list<kept> fresh;
    fresh.push_back({host, std::move(session)});
    const std::lock_guard lock(mutex_);
    newest_first_.splice(newest_first_.begin(), fresh);
    if (newest_first_.size() > sessions_max_) newest_first_.pop_back();
}

ssl_session_pointer tls_resumption::take(const std::string& host) {
    const std::lock_guard lock(mutex_);
    newest_first_.remove_if(  // that of a stream that failed, since
        [](const kept& each) { return SSL_SESSION_is_resumable(each.session.get()) != 1; });
    const auto found = std::find_if(newest_first_.begin(), newest_first_.end(),
                                    [&](const kept& each) { return each.host == host; });
    if (found == newest_first_.end()) return nullptr;
    if (SSL_SESSION_get_protocol_version(found->session.get()) < TLS1_3_VERSION) {
        SSL_SESSION_up_ref(found->session.get());
        return ssl_session_pointer(found->session.get());
    }
    ssl_session_pointer taken = std::move(found->session);
    newest_first_.erase(found);
    return taken;
}

}  // namespace ringloop::net::detail
