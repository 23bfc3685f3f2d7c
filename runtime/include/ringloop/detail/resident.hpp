// resident: what holds something of a scheduler's between its awaits, an open descriptor above all,
// and may still be there when the scheduler ends: objects of Python's, which nobody has dropped
// when their loop is closed. The scheduler's destructor then has each of them give up what it
// holds; afterwards it is of no scheduler.
//
// Thread: a scheduler's. The lists may be changed by several: one whose owner ends it on another
// thread (a collector of garbage runs on any) is given to its scheduler, which deletes it in its
// next turn. farewell: on the thread of the scheduler's destructor.
#pragma once

#include <memory>
#include <utility>

#include "ringloop/scheduler.hpp"

namespace ringloop::detail {

class resident {
  protected:
    using farewell = void (*)(resident& self) noexcept;

    resident() noexcept = default;  // of no scheduler
    resident(scheduler& home, farewell leave) noexcept { join(home, leave); }
    resident(const resident&) = delete;
    resident& operator=(const resident&) = delete;
    ~resident() { part(); }

    // Of no scheduler before.
    void join(scheduler& home, farewell leave) noexcept;
    // No longer of it. Idempotent.
    void part() noexcept;
    // True: `home`, which takes its turns on another thread, calls `end` with this, there and
    // later. False: this may be ended here and now.
    [[nodiscard]] bool end_at_home(scheduler& home, farewell end) noexcept;

  private:
    friend class ringloop::scheduler;
    resident* next_ = nullptr;
    resident** link_ = nullptr;  // what points here; null: of no scheduler
    farewell leave_ = nullptr;
};

// Owns a State: a resident with home(), and with operations in flight maybe.
template <class State>
struct delete_at_home {
    void operator()(State* state) const noexcept {
        if (!State::end_at_home(*state)) delete state;
    }
};
template <class State>
using resident_ptr = std::unique_ptr<State, delete_at_home<State>>;

// An open descriptor: closed by the destructor, or when its scheduler ends.
class resident_descriptor : private resident {
  public:
    resident_descriptor() noexcept = default;
    resident_descriptor(scheduler& home, int fd) noexcept { take(&home, fd); }
    resident_descriptor(resident_descriptor&& other) noexcept {
        take(other.home_, other.release());
    }
    resident_descriptor& operator=(resident_descriptor&& other) noexcept {
        if (this != &other) {
            close();
            take(other.home_, other.release());
        }
        return *this;
    }
    ~resident_descriptor() { close(); }

    [[nodiscard]] int get() const noexcept { return fd_; }  // -1: none
    [[nodiscard]] scheduler& home() const noexcept { return *home_; }
    // The caller closes it from here on.
    [[nodiscard]] int release() noexcept {
        part();
        return std::exchange(fd_, -1);
    }
    void close() noexcept {
        if (fd_ < 0) return;
        part();
        home_->io().close(std::exchange(fd_, -1));
    }

  private:
    void take(scheduler* home, int fd) noexcept {
        home_ = home;
        fd_ = fd;
        if (fd < 0) return;
        join(*home,
             [](resident& self) noexcept { static_cast<resident_descriptor&>(self).close(); });
    }
    scheduler* home_ = nullptr;
    int fd_ = -1;
};

}  // namespace ringloop::detail
