// engine: many connections in a closed loop, and what was measured of them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "connection.hpp"
#include "flood.hpp"
#include "options.hpp"
#include "pauses.hpp"

namespace load {

struct outcome {
    double seconds = 0;
    double server_cpu_seconds = 0;
    std::uint64_t repeated = 0;               // datagrams that had to be sent again
    std::uint64_t flood_bytes = 0;            // that came back
    std::vector<std::uint32_t> latencies_ns;  // of each answer in the measured time
};

// One thread, one epoll. Opens all connections, each with a first request that counts as warming;
// then warms up, then measures. Throws at the first failure, wrong answer or silence.
class engine {
  public:
    explicit engine(const options& wanted);
    ~engine();
    engine(const engine&) = delete;
    engine& operator=(const engine&) = delete;

    [[nodiscard]] outcome run();

  private:
    void open_all();
    void turn();  // waits for something and does it
    void handle(std::size_t index);
    void finished(std::size_t index);
    void begin_due();
    void watch(std::size_t index, int change);
    void repeat_old();
    [[nodiscard]] int wait_ms() const;

    options wanted_;
    std::unique_ptr<tls_client> tls_;
    std::vector<std::unique_ptr<client>> clients_;
    std::vector<bool> wrote_;  // what epoll was told of wants_write()
    std::unique_ptr<flood> flood_;
    std::unique_ptr<pauses> pauses_;  // once all are open
    int epoll_;
    bool measuring_ = false;
    std::uint64_t answers_ = 0;
    std::int64_t heard_ns_ = 0;
    outcome outcome_;
};

}  // namespace load
