// bodies: the makers of the two bodies that talk to the kernel, for make_driver() alone.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ringloop/driver.hpp"

namespace ringloop {

// Throw std::system_error whose text names the call that failed, why it probably did, and what to
// do about it. `reason` goes to the driver's capabilities; `missing`, if given, receives the names
// of the opcodes that the ring lacks, also when it throws.
[[nodiscard]] std::unique_ptr<driver> make_uring_driver(
    const driver_config& config, std::string reason, std::vector<std::string>* missing = nullptr);
[[nodiscard]] std::unique_ptr<driver> make_epoll_driver(const driver_config& config,
                                                        std::string reason,
                                                        std::vector<std::string> missing);

}  // namespace ringloop
