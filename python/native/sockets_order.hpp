// socket_place: the order of calls that read from one socket, and of those that write to it: first
// come, first served. Only the first of a queue has begun. A call that reads keeps its place until
// its bytes have been taken, or given back: a later one never gets later bytes.
//
// A queue is of one socket object, direction and loop. It is found by the descriptor: whoever comes
// with another socket of that number (the first may be closed, with its call still in flight) or
// from another loop begins a queue of its own. Thread: the loop's, GIL held.
#pragma once

#include <cstdint>

namespace ringloop::bridge {
class loop_host;
}

namespace ringloop::python {

enum class order : std::uint8_t { none, reading, writing };

class socket_place {
  public:
    socket_place() noexcept = default;
    socket_place(const socket_place&) = delete;
    socket_place& operator=(const socket_place&) = delete;

    // Whose queue: both outlive the place.
    struct owners {
        const void* socket;
        const bridge::loop_host* host;
        bool operator==(const owners&) const noexcept = default;
    };
    // True: begin now. False: go() follows, from leave() of the one before.
    [[nodiscard]] bool enter(int fd, order which, owners whose) noexcept;
    void leave() noexcept;  // once or more; the next begins
    // Stands where `other` stood, which has left.
    void replace(socket_place& other) noexcept;
    [[nodiscard]] bool waits() const noexcept { return now_ == waiting || now_ == due; }
    // The one whose turn it is, or null.
    [[nodiscard]] static socket_place* first(int fd, order which, owners whose) noexcept;
    // In a forked child, or when a loop has closed (its host): nobody waits any more.
    static void forget_all(const bridge::loop_host* host) noexcept;
    // An operation in the other direction was told that the peer has reset the connection.
    virtual void peer_reset() noexcept {}

    // While one lives, whoever's turn it has become begins at its end, behind what the owner does:
    // one after the other and never one inside the other.
    class put_off {
      public:
        put_off() noexcept;
        ~put_off();
        put_off(const put_off&) = delete;
        put_off& operator=(const put_off&) = delete;
    };

  protected:
    virtual ~socket_place() { leave(); }
    virtual void go() noexcept = 0;

  private:
    enum place : std::uint8_t { outside, waiting, due, begun };
    void forget() noexcept;
    void stand_in(socket_place* behind, socket_place* before) noexcept;

    owners whose_ = {};
    socket_place* previous_ = nullptr;
    socket_place* next_ = nullptr;
    socket_place* next_due_ = nullptr;
    int fd_ = -1;
    order which_ = order::none;
    place now_ = outside;
};

}  // namespace ringloop::python
