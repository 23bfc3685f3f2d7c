// stream_state: what a byte_stream keeps at a fixed address, and the awaiters of its reads and
// writes.
//
// Receiving. One multishot receive is armed at the first receive() and stays armed. Completions
// queue up as chunks; when `chunks_max` wait unread the receive is taken back and armed again once
// they are read, so that a slow reader holds few buffers. A chunk that nobody waits for, or that is
// handed out while half of the pool is on loan, is copied and its buffer given back: a slow holder
// starves nobody. A chunk for which there is no memory, not even in the queue, ends the stream with
// ENOMEM.
// Sending. One direct attempt; only what the socket does not take becomes an operation.
// Thread: the scheduler's.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <coroutine>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

#include "ringloop/buffer.hpp"
#include "ringloop/detail/operation_await.hpp"
#include "ringloop/detail/resident.hpp"
#include "ringloop/detail/state_wait.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net::detail {

using ringloop::detail::owned_operation;
using ringloop::detail::scope_of;
using ringloop::detail::state_wait;

// First in, first out; keeps its memory. Usually holds one lease or none.
class chunk_queue {
  public:
    [[nodiscard]] bool empty() const noexcept { return head_ == chunks_.size(); }
    [[nodiscard]] std::size_t size() const noexcept { return chunks_.size() - head_; }
    // Throws std::bad_alloc; not while there is room from reserve().
    void push(buffer_lease&& chunk) {
        if (head_ != 0 && chunks_.size() == chunks_.capacity()) {
            chunks_.erase(chunks_.begin(), chunks_.begin() + static_cast<std::ptrdiff_t>(head_));
            head_ = 0;
        }
        chunks_.push_back(std::move(chunk));
    }
    void reserve(std::size_t count) { chunks_.reserve(count); }
    [[nodiscard]] buffer_lease& front() noexcept { return chunks_[head_]; }
    [[nodiscard]] buffer_lease pop() noexcept {
        buffer_lease chunk = std::move(chunks_[head_]);
        if (++head_ == chunks_.size()) {
            chunks_.clear();
            head_ = 0;
        }
        return chunk;
    }

  private:
    std::vector<buffer_lease> chunks_;
    std::size_t head_ = 0;
};

class stream_state : public ringloop::detail::pooled_frame, private ringloop::detail::resident {
  public:
    static constexpr std::size_t chunks_max = 4;

    stream_state(scheduler& home, int socket) noexcept;
    ~stream_state();
    // For delete_at_home.
    [[nodiscard]] static bool end_at_home(stream_state& ending) noexcept {
        return ending.resident::end_at_home(ending.home_, [](resident& self) noexcept {
            delete static_cast<stream_state*>(&self);
        });
    }
    stream_state(const stream_state&) = delete;
    stream_state& operator=(const stream_state&) = delete;

    [[nodiscard]] int socket() const noexcept { return socket_; }
    [[nodiscard]] scheduler& home() const noexcept { return home_; }
    [[nodiscard]] driver& io() const noexcept { return home_.io(); }
    // A receive has been armed, or has left something: nobody else may read the socket.
    [[nodiscard]] bool receives_by_itself() const noexcept {
        return receive_.in_flight() || readable();
    }

    // See byte_stream::release(). The destructor then leaves the socket alone.
    [[nodiscard]] int release();

  private:
    friend class receive_await;
    friend class read_await;
    friend class write_await;
    friend class writing_turn;

    void arm() noexcept;
    // Takes back what is in flight and closes; also when the scheduler ends.
    void leave() noexcept;
    void arrived(const completion& got) noexcept;
    void keep(buffer_lease&& lease) noexcept;
    [[nodiscard]] bool readable() const noexcept { return !chunks_.empty() || ended_; }
    [[nodiscard]] bool pool_is_low(unsigned on_loan) const noexcept {
        return on_loan * 2 > io().what().buffer_count;
    }
    // The next chunk, or an empty lease at the end, or after a failure that `failure` tells;
    // without it that is thrown.
    [[nodiscard]] buffer_lease take(std::error_code* failure);
    void enter_read();
    void leave_read() noexcept { reading_ = false; }

    scheduler& home_;
    int socket_;
    int receive_error_ = 0;    // errno; with ended_
    bool ended_ = false;       // end of the stream, or receive_error_
    bool taken_back_ = false;  // the receive was cancelled: too many chunks waited
    bool reading_ = false;
    bool writing_ = false;
    owned_operation receive_;
    chunk_queue chunks_;
    state_wait* reader_ = nullptr;  // waits for a chunk
};

class receive_await {
  public:
    explicit receive_await(stream_state& stream, std::error_code* failure = nullptr) noexcept
        : stream_(stream), failure_(failure) {}
    receive_await(const receive_await&) = delete;
    receive_await& operator=(const receive_await&) = delete;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        return start(handle, scope_of(handle));
    }
    // An empty lease: the end of the stream.
    [[nodiscard]] buffer_lease await_resume();

  private:
    bool start(std::coroutine_handle<> handle, stop_scope* scope);
    stream_state& stream_;
    std::error_code* failure_;
    state_wait wait_;
    bool began_ = false;
};

class read_await : private stop_waiter {
  public:
    read_await(stream_state& stream, std::span<std::byte> into,
               std::error_code* failure = nullptr) noexcept;
    read_await(const read_await&) = delete;
    read_await& operator=(const read_await&) = delete;
    [[nodiscard]] bool await_ready() const noexcept { return into_.empty(); }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        return start(handle, scope_of(handle));
    }
    [[nodiscard]] std::size_t await_resume();

  private:
    bool start(std::coroutine_handle<> handle, stop_scope* scope);
    static void arrive(operation& op, const completion& last) noexcept;
    static void ask_to_stop(stop_waiter& self) noexcept;

    stream_state& stream_;
    std::span<std::byte> into_;
    std::error_code* failure_;
    state_wait wait_;     // while a multishot receive is armed, or chunks wait
    owned_operation op_;  // otherwise: straight into the caller's memory
    stop_scope* scope_ = nullptr;
    std::coroutine_handle<> waiting_;
    std::int32_t result_ = 0;
    bool began_ = false;
    bool direct_ = false;
};

class write_await : private stop_waiter {
  public:
    write_await(stream_state& stream, std::span<const std::byte> bytes, bool all,
                std::error_code* failure = nullptr) noexcept;
    write_await(const write_await&) = delete;
    write_await& operator=(const write_await&) = delete;
    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        return start(handle, scope_of(handle));
    }
    // Bytes sent.
    std::size_t await_resume() const {
        if (error_ != 0) [[unlikely]]
            fail();
        else if (failure_ != nullptr)
            failure_->clear();
        return sent_;
    }

  private:
    bool start(std::coroutine_handle<> handle, stop_scope* scope);
    void submit_rest() noexcept;
    void note_sent(std::size_t count) noexcept;
    void fail() const;  // throws, unless there is an error_code to tell
    static void arrive(operation& op, const completion& last) noexcept;
    static void ask_to_stop(stop_waiter& self) noexcept;

    stream_state& stream_;
    std::error_code* failure_;
    std::span<const std::byte> rest_;
    std::size_t sent_ = 0;
    int error_ = 0;
    bool all_;
    stop_scope* scope_ = nullptr;
    std::coroutine_handle<> waiting_;
    owned_operation op_;
    iovec piece_{};
    msghdr message_{};
};

}  // namespace ringloop::net::detail
