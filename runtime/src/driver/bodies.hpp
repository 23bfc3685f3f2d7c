// bodies: the makers of the two bodies that talk to the kernel, for make_driver() alone.
#pragma once

#include <memory>

#include "ringloop/driver.hpp"

namespace ringloop {

// Throw std::system_error whose text names the call that failed, why it probably did, and what to
// do about it.
[[nodiscard]] std::unique_ptr<driver> make_uring_driver(const driver_config& config);
[[nodiscard]] std::unique_ptr<driver> make_epoll_driver(const driver_config& config);

}  // namespace ringloop
