// flood: a connection that sends flat out, without waiting for what comes back, and checks that.
#pragma once

#include <cstddef>
#include <string>

#include "channel.hpp"
#include "options.hpp"

namespace load {

class flood {
  public:
    explicit flood(const options& wanted);
    void advance();  // sends and receives what goes now
    [[nodiscard]] int descriptor() const noexcept { return channel_.descriptor(); }
    [[nodiscard]] std::size_t received() const noexcept { return received_; }

  private:
    channel channel_;
    std::string block_;  // sent again and again
    std::size_t sent_ = 0;
    std::size_t received_ = 0;
};

}  // namespace load
