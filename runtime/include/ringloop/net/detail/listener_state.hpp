// listener_state: what a listener keeps at a fixed address, and the awaiter of its accept.
//
// One multishot accept is armed at the first accept() and stays armed; connections queue up. When
// `waiting_max` wait it is taken back until they were taken: the rest stays in the kernel's
// backlog. Out of descriptors or memory (EMFILE, ENFILE, ENOBUFS, ENOMEM): armed again after
// `retry_ns`, no spinning, nothing thrown; a connection for which this process has no memory is
// closed. Thread: the scheduler's.
#pragma once

#include <coroutine>
#include <cstdint>
#include <vector>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/detail/resident.hpp"
#include "ringloop/detail/state_wait.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"
#include "ringloop/timer.hpp"

namespace ringloop::net::detail {

class listener_state : private ringloop::detail::resident {
  public:
    static constexpr std::size_t waiting_max = 128;
    static constexpr std::int64_t retry_ns = 50'000'000;

    listener_state(scheduler& home, int socket);  // the socket is its own once it is made
    ~listener_state();
    // For delete_at_home.
    [[nodiscard]] static bool end_at_home(listener_state& ending) noexcept {
        return ending.resident::end_at_home(ending.home_, [](resident& self) noexcept {
            delete static_cast<listener_state*>(&self);
        });
    }
    listener_state(const listener_state&) = delete;
    listener_state& operator=(const listener_state&) = delete;

    [[nodiscard]] int socket() const noexcept { return socket_; }
    [[nodiscard]] scheduler& home() const noexcept { return home_; }
    [[nodiscard]] driver& io() const noexcept { return home_.io(); }

  private:
    friend class socket_await;
    struct retry_timer : timer {
        retry_timer(handler function, listener_state& its_owner) noexcept
            : timer(function), owner(its_owner) {}
        listener_state& owner;
    };

    void arm() noexcept;
    void leave() noexcept;  // takes back and closes all; also when the scheduler ends
    void arrived(const completion& got) noexcept;
    void refused(int error_number) noexcept;
    [[nodiscard]] bool ready() const noexcept { return head_ != sockets_.size() || error_ != 0; }
    [[nodiscard]] int take() noexcept;

    scheduler& home_;
    int socket_;
    int error_ = 0;
    bool taken_back_ = false;
    ringloop::detail::owned_operation accept_;
    retry_timer retry_;
    std::vector<int> sockets_;  // accepted; taken from head_ on
    std::size_t head_ = 0;
    ringloop::detail::state_wait* acceptor_ = nullptr;
};

class socket_await {
  public:
    socket_await(const socket_await&) = delete;
    socket_await& operator=(const socket_await&) = delete;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        return start(handle, ringloop::detail::scope_of(handle));
    }

  protected:
    explicit socket_await(listener_state& listener) noexcept : listener_(listener) {}
    ~socket_await() = default;
    [[nodiscard]] int take();  // the accepted socket
    listener_state& listener_;

  private:
    bool start(std::coroutine_handle<> handle, stop_scope* scope);
    ringloop::detail::state_wait wait_;
};

template <class Stream>
class accept_await : public socket_await {
  public:
    explicit accept_await(listener_state& listener) noexcept : socket_await(listener) {}
    [[nodiscard]] Stream await_resume() { return Stream(listener_.home(), take()); }
};

}  // namespace ringloop::net::detail
