// make_driver: which body this machine, under its filters and limits, can have.
//
// An explicit choice is met or refused; only `automatic` falls back, and says why.
#include <stdexcept>
#include <system_error>

#include "driver/bodies.hpp"
#include "ringloop/driver.hpp"

namespace ringloop {

std::unique_ptr<driver> make_driver(const driver_config& config) {
    switch (config.choice) {
        case backend::uring:
            return make_uring_driver(config, "asked for");
        case backend::epoll:
            return make_epoll_driver(config, "asked for", {});
        case backend::fake:
            throw std::invalid_argument(
                "the simulated driver is for tests: make it by its own maker, not by "
                "make_driver()");
        case backend::automatic:
            break;
    }
    std::vector<std::string> missing;
    std::string reason;
    try {
        return make_uring_driver(config, "io_uring works here", &missing);
    } catch (const std::system_error& error) {
        reason = error.what();
    }
    return make_epoll_driver(config, "no io_uring: " + reason, std::move(missing));
}

}  // namespace ringloop
