// make_driver: which body this machine, under its filters and limits, can have.
#include <stdexcept>
#include <system_error>

#include "driver/bodies.hpp"
#include "ringloop/driver.hpp"

namespace ringloop {

std::unique_ptr<driver> make_driver(const driver_config& config) {
    return make_uring_driver(config);
}

}  // namespace ringloop
