// received_descriptor: a descriptor that came from elsewhere, closed by its destructor. Move-only.
// Thread: the scheduler's.
#pragma once

#include "ringloop/detail/resident.hpp"
#include "ringloop/scheduler.hpp"

namespace ringloop::net {

class received_descriptor {
  public:
    received_descriptor(scheduler& home, int fd) noexcept : fd_(home, fd) {}
    [[nodiscard]] int native_handle() const noexcept { return fd_.get(); }
    // The caller closes it from here on.
    [[nodiscard]] int release() noexcept { return fd_.release(); }

  private:
    ringloop::detail::resident_descriptor fd_;
};

}  // namespace ringloop::net
