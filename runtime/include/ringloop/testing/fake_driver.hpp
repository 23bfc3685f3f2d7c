// fake_driver: a body of ringloop::driver without a kernel, for tests.
//
// Descriptors, sockets, pipes and files are a simulated_kernel's; the clock is virtual: wait()
// jumps to the next event or to its deadline. Equal configuration, equal calls: equal run. Faults
// come from a plan (this fault at that step) or from a seed; every step is recorded.
//
// Nothing here ever blocks, except for other threads' wake() where `outside_threads` says that
// there are some. When nothing can happen any more, `on_failure` is called with a report instead:
// it may cause progress (stop the scheduler, cancel what waits); if it does not, the process is
// aborted. So is a run that exceeds its budget of steps twice.
//
// pollable_fd() is -1: a guest of a foreign poller cannot be simulated.
//
// Thread: as driver says. Test builds only: the library ringloop_testing holds it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <string>
#include <vector>

#include "ringloop/driver.hpp"
#include "ringloop/testing/fault.hpp"
#include "ringloop/testing/simulated_kernel.hpp"

namespace ringloop::testing {

// Faults drawn from the seed. Probabilities in 1/1000 a step.
struct chaos {
    std::uint64_t seed = 0;
    unsigned faults = 0;
    unsigned latencies = 0;      // a completion up to latency_max_ns late
    unsigned disorder = 0;       // a completion anywhere in its batch
    bool harmless_only = false;  // no fault that a correct program may show to its user
    std::int64_t latency_max_ns = 2'000'000;
};

struct fake_config {
    driver_config driver;  // entries, buffers
    kernel_limits kernel;
    chaos random;
    std::vector<planned_fault> plan;
    std::int64_t file_latency_ns = 50'000;
    std::int64_t enter_cost_ns = 200;     // the clock advances that much each time
    std::uint64_t steps_max = 1'000'000;  // of all domains together
    bool outside_threads = false;         // other threads will call wake()
};

class fake_driver final : public driver {
  public:
    explicit fake_driver(const fake_config& config = {});
    ~fake_driver() override;

    [[nodiscard]] simulated_kernel& kernel() noexcept { return kernel_; }
    [[nodiscard]] const std::vector<step_record>& record() const noexcept { return record_; }
    // Of one domain, in order; the index is the step's number.
    [[nodiscard]] std::vector<step_record> record(step_domain domain) const;
    [[nodiscard]] std::uint64_t faults_injected() const noexcept { return faults_injected_; }
    [[nodiscard]] bool harmful_fault_injected() const noexcept { return harmful_; }
    // Broken rules that the driver itself has seen: a buffer given back twice or written to after.
    [[nodiscard]] const std::vector<std::string>& violations() const noexcept {
        return violations_;
    }

    // Runs `action` when the clock gets there: a scripted peer.
    void after(std::int64_t delay_ns, std::function<void()> action);
    // No more faults and latencies: the rest of the run is clean.
    void stop_faults() noexcept;

    std::function<void(const std::string& report)> on_failure;
    std::function<void(fake_driver&)> on_end;  // from the destructor: the last look at the record
    // What is in flight, open and undelivered; the last steps.
    [[nodiscard]] std::string report(const std::string& headline) const;

    // ---- driver
    void abandon_after_fork() noexcept override;
    ssize_t try_send(int fd, std::span<const iovec> pieces) noexcept override;
    ssize_t try_receive(int fd, std::span<const iovec> pieces) noexcept override;
    int try_recvmmsg(int fd, std::span<mmsghdr> messages) noexcept override;
    int try_sendmmsg(int fd, std::span<mmsghdr> messages) noexcept override;
    ssize_t try_pread(int fd, void* data, std::size_t size, std::int64_t offset) noexcept override;
    ssize_t try_write(int fd, std::span<const iovec> pieces) noexcept override;
    int close(int fd) noexcept override;
    int inspect(int fd, descriptor_facts& facts) noexcept override;
    int make_socket(int domain, int type, int protocol) noexcept override;
    int make_pipe(int (&ends)[2]) noexcept override;
    int bind(int fd, const sockaddr* address, socklen_t size) noexcept override;
    int listen(int fd, int backlog) noexcept override;
    int shutdown(int fd, int how) noexcept override;
    int set_option(int fd, int level, int name, const void* value,
                   socklen_t size) noexcept override;
    int get_option(int fd, int level, int name, void* value, socklen_t* size) noexcept override;
    int local_address(int fd, sockaddr* address, socklen_t* size) noexcept override;
    int peer_address(int fd, sockaddr* address, socklen_t* size) noexcept override;
    [[nodiscard]] std::int64_t now_ns() const noexcept override { return now_ns_; }
    [[nodiscard]] int pollable_fd() const noexcept override { return -1; }

  protected:
    void body_submit(operation& op) noexcept override;
    void body_cancel(operation& op) noexcept override;
    void body_flush() noexcept override;
    void body_poll() noexcept override;
    wait_result body_wait(const wait_request& request) noexcept override;
    void body_release_buffer(buffer_id id) noexcept override;
    void body_signal() noexcept override;
    void body_adopt_thread() noexcept override {}

  private:
    // waiting: parked on its object; held_back: not begun yet, by a fault; running: a file
    // operation between its begin and its effect; decided: its last completion is on the way.
    enum class stage : std::uint8_t { queued, waiting, held_back, running, decided };
    struct flight {
        operation* op = nullptr;
        object_ref target;
        stage at = stage::queued;
        bool connecting = false;  // begun: the listener's backlog is full
        std::uint32_t generation = 0;
        std::int64_t last_ns = 0;  // completions of one operation keep their order
        std::uint64_t last_key = 0;
    };
    // Names one life of one flight: index and generation.
    using ticket = std::uint64_t;
    struct submission {
        ticket who;
        bool cancel;
    };
    enum class event_kind : std::uint8_t { attempt, deliver, cancel, action };
    struct event {
        std::int64_t time_ns;
        std::uint64_t key;
        std::uint64_t sequence;
        event_kind kind;
        ticket who;
        completion result;
        [[nodiscard]] bool operator<(const event& other) const noexcept;
    };

    // ---- steps and faults (fake_steps.cpp)
    fault next_fault(step_record step, std::size_t& place);
    [[nodiscard]] fault planned(step_domain domain, std::uint64_t index) const noexcept;
    fault drawn(const step_record& step);
    std::uint64_t random() noexcept;
    [[nodiscard]] bool chance(unsigned per_mille) noexcept;
    void fail(const std::string& headline);
    int cold_verb(step_kind kind, int fd, const std::function<int(simulated_object&)>& act);
    [[nodiscard]] std::int64_t moving_natural(step_kind kind,
                                              const object_ref& object) const noexcept;
    ssize_t moving_verb(step_kind kind, int fd, std::size_t asked,
                        const std::function<ssize_t(simulated_object&, std::size_t)>& act);

    // ---- operations (fake_operations.cpp)
    void begin(flight& f, ticket who);
    void attempt(flight& f, ticket who);
    [[nodiscard]] bool would_block(const flight& f) const noexcept;
    [[nodiscard]] std::int64_t natural_result(const flight& f) const noexcept;
    completion perform(flight& f, const fault& injected);
    completion perform_receive(flight& f, std::size_t max);
    int perform_failed(flight& f, int number);
    [[nodiscard]] std::int64_t perform_file(flight& f, std::size_t max);
    [[nodiscard]] std::int64_t transfer(flight& f, std::size_t max);
    [[nodiscard]] std::int64_t perform_naming(const operation& op);
    void emit(flight& f, ticket who, completion result, const fault& injected);
    void carry_out_cancel(ticket who, bool again);
    void retry_changed();

    // ---- the turn (fake_turn.cpp)
    [[nodiscard]] flight* find(ticket who) noexcept;
    void enter();
    void hand_over();
    void run_due();
    void happen(const event& next);
    void schedule(std::int64_t time_ns, std::uint64_t key, event_kind kind, ticket who,
                  completion result = {});
    wait_result sleep_until_event(const wait_request& request);
    [[nodiscard]] bool take_signal();
    [[nodiscard]] bool wait_for_signal();
    void nothing_left();

    simulated_kernel kernel_;
    chaos random_;
    std::vector<planned_fault> plan_;
    std::int64_t file_latency_ns_;
    std::int64_t enter_cost_ns_;
    std::uint64_t steps_max_;
    bool outside_threads_;

    std::int64_t now_ns_ = 1'000'000'000;
    std::uint64_t sequence_ = 0;
    std::uint64_t random_state_;
    std::deque<flight> flights_;
    std::vector<std::uint32_t> free_flights_;
    std::vector<submission> submissions_;
    std::priority_queue<event> events_;
    std::deque<std::function<void()>> actions_;
    std::vector<object_ref> changed_;
    bool entering_ = false;
    bool retrying_ = false;
    std::uint64_t completed_ = 0;
    std::uint64_t turns_ = 0;
    std::uint64_t turns_at_progress_ = 0;

    std::vector<std::byte> pool_;
    std::vector<buffer_id> free_buffers_;
    std::vector<bool> lent_;

    std::vector<step_record> record_;
    std::uint64_t step_count_[3] = {};
    std::uint64_t faults_injected_ = 0;
    bool harmful_ = false;
    unsigned failures_ = 0;
    std::vector<std::string> violations_;

    std::mutex signal_mutex_;
    std::condition_variable signal_;
    bool signalled_ = false;
};

[[nodiscard]] std::unique_ptr<fake_driver> make_fake_driver(const fake_config& config = {});

}  // namespace ringloop::testing
