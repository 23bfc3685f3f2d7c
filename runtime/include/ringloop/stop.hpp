// stop_scope: how running coroutines are asked to stop.
//
// The model. Every task runs in a scope: the one of the coroutine that awaits it, unless
// with_stop() or a task group gave it one of its own. A stop request on a scope reaches all scopes
// inside it and every await that waits in them:
//  - an await of an operation, timer or stream that is waiting is woken: it throws
//    operation_cancelled, or returns its result if that was faster (nothing that arrived is lost);
//  - an await that begins after the request throws operation_cancelled before it does anything;
//  - an await of a task passes the request on to that task and waits for it: no frame is left
//    behind. Joining a group waits likewise.
// A request is final. Cleaning up needs no await: streams, listeners and files are closed by their
// destructors.
//
// std::stop_token is the door for other threads: with_stop(token, task) ends a task when the token
// says so, on whichever thread that happens; token() gives a scope's state to code elsewhere (a
// function under offload()).
//
// Thread: the scheduler's, so that an await costs two pointer writes and no lock.
#pragma once

#include <stop_token>

namespace ringloop {

class stop_scope;

// Somebody to tell. Intrusive; the handler runs once and finds the waiter unlinked.
struct stop_waiter {
    using handler = void (*)(stop_waiter&) noexcept;
    explicit stop_waiter(handler function) noexcept : on_stop(function) {}
    ~stop_waiter() { unlink(); }
    stop_waiter(const stop_waiter&) = delete;
    stop_waiter& operator=(const stop_waiter&) = delete;

    void unlink() noexcept {
        if (slot == nullptr) return;
        *slot = next;
        if (next != nullptr) next->slot = slot;
        slot = nullptr;
    }

    handler on_stop;
    stop_waiter* next = nullptr;
    stop_waiter** slot = nullptr;  // what points to us; null: in no scope
};

class stop_scope {
  public:
    // Inside `outer`, where there is one: a stop of it stops this scope too.
    explicit stop_scope(stop_scope* outer = nullptr) noexcept;
    ~stop_scope();
    stop_scope(const stop_scope&) = delete;
    stop_scope& operator=(const stop_scope&) = delete;

    [[nodiscard]] bool stop_requested() const noexcept { return requested_; }
    // Idempotent. Resumes nothing by itself: those who wait are scheduled.
    void request_stop() noexcept;
    // A token that follows this scope, for other threads.
    [[nodiscard]] std::stop_token token();

    // Whose coroutines run in here: a word of the embedder's, which scopes inside this one inherit
    // as they are made; null: nobody's.
    [[nodiscard]] void* owner() const noexcept { return owner_; }
    void set_owner(void* embedder) noexcept { owner_ = embedder; }

    // The waiter is told at the request. Not after it: ask stop_requested() first.
    void add(stop_waiter& waiter) noexcept {
        waiter.next = first_;
        waiter.slot = &first_;
        if (first_ != nullptr) first_->slot = &waiter.next;
        first_ = &waiter;
    }

  private:
    struct link : stop_waiter {
        explicit link(stop_scope& owner) noexcept;
        stop_scope* inner;
    };
    stop_waiter* first_ = nullptr;
    link outer_;
    void* owner_ = nullptr;
    std::stop_source source_{std::nostopstate};
    bool requested_ = false;
};

}  // namespace ringloop
