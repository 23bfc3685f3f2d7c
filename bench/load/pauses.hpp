// pauses: connections between two requests, by the time of the next one.
//
// Each starts its requests an interval apart, all together at a rate; one that is late starts at
// once and makes nothing up. Without a rate there is no pause. One thread; no clock of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

namespace load {

class pauses {
  public:
    // per_second: requests of all connections; 0 or less: no pauses. All are resting at first.
    pauses(std::size_t connections, double per_second, std::int64_t now_ns)
        : interval_ns_(per_second > 0 ? static_cast<std::int64_t>(static_cast<double>(connections) *
                                                                  1e9 / per_second)
                                      : 0) {
        for (std::size_t index = 0; index < connections; ++index)
            resting_.emplace(now_ns + interval_ns_ * static_cast<std::int64_t>(index) /
                                          static_cast<std::int64_t>(connections),
                             index);
    }
    void rest(std::size_t index, std::int64_t began_ns) {
        resting_.emplace(began_ns + interval_ns_, index);
    }
    [[nodiscard]] bool has_due(std::int64_t now_ns) const {
        return !resting_.empty() && resting_.top().first <= now_ns;
    }
    [[nodiscard]] std::size_t take() {
        const std::size_t index = resting_.top().second;
        resting_.pop();
        return index;
    }
    [[nodiscard]] int wait_ms(std::int64_t now_ns) const {  // at most 100
        if (resting_.empty()) return 100;
        return static_cast<int>(std::clamp<std::int64_t>(
            (resting_.top().first - now_ns + 999'999) / 1'000'000, 0, 100));
    }

  private:
    std::int64_t interval_ns_;
    std::priority_queue<std::pair<std::int64_t, std::size_t>,
                        std::vector<std::pair<std::int64_t, std::size_t>>, std::greater<>>
        resting_;
};

}  // namespace load
