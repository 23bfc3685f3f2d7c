// plan: the requests of a load and the answers that are right for them.
//
// A plan is a text file; each line is `WEIGHT NAME REQUEST-FILE BODY-FILE`: how often, what it is
// called in the report, the bytes to send, the body to expect. Paths are relative to the plan.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace load {

struct kind {
    std::string name;
    unsigned weight;
    std::string request;
    std::string body;
    std::vector<std::uint32_t> latencies_us;
};

class plan {
  public:
    // Throws std::runtime_error naming the line or file that cannot be used.
    explicit plan(const std::string& path);
    [[nodiscard]] std::vector<kind>& kinds() noexcept { return kinds_; }
    // Index of the next request to send; the same sequence in every run.
    [[nodiscard]] std::size_t next() { return order_(generator_); }

  private:
    std::vector<kind> kinds_;
    std::mt19937 generator_{20};
    std::discrete_distribution<std::size_t> order_;
};

}  // namespace load
