// remote_stop: while it lives, a stop of `token`, on any thread, stops `scope` on its scheduler.
//
// The request crosses over as a posted node. The node is freed by whichever comes last: the end of
// the remote_stop, or its arrival.
#pragma once

#include <optional>
#include <stop_token>

#include "ringloop/scheduler.hpp"
#include "ringloop/stop.hpp"

namespace ringloop::detail {

class remote_stop {
  public:
    remote_stop(const std::stop_token& token, stop_scope& scope, scheduler& home);
    ~remote_stop();
    remote_stop(const remote_stop&) = delete;
    remote_stop& operator=(const remote_stop&) = delete;

  private:
    struct node : posted {
        node(stop_scope& to_stop, scheduler& target) noexcept
            : posted(&node::arrive), scope(&to_stop), home(target) {}
        static void arrive(posted& self) noexcept;
        stop_scope* scope;
        scheduler& home;
        bool sent = false;  // written before post(), read after it or after the callback has ended
    };
    struct caller {
        void operator()() const noexcept;
        node* target;
    };
    node* node_;
    std::optional<std::stop_callback<caller>> callback_;
};

}  // namespace ringloop::detail
