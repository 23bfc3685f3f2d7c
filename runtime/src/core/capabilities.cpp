// capabilities: the names of the backends, as people write them.
#include "ringloop/capabilities.hpp"

#include <stdexcept>

namespace ringloop {

const char* name(backend which) noexcept {
    switch (which) {
        case backend::automatic:
            return "auto";
        case backend::uring:
            return "uring";
        case backend::epoll:
            return "epoll";
        case backend::fake:
            return "fake";
    }
    return "unknown";
}

backend parse_backend(const std::string& word) {
    for (const backend each : {backend::automatic, backend::uring, backend::epoll}) {
        if (word == name(each)) return each;
    }
    throw std::invalid_argument("unknown backend \"" + word +
                                "\": choose \"auto\", \"uring\" or \"epoll\"");
}

}  // namespace ringloop
