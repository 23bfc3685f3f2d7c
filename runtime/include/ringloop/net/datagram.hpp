// udp_socket, unix_datagram: sockets that carry messages, each whole or not at all.
//
//     auto socket = net::udp_socket::bind({"127.0.0.1", 5353});
//     while (true) {
//         auto got = co_await socket.receive_from(buffer);
//         co_await socket.send_to(std::span(buffer).first(got.size), got.from);
//     }
//
// One system call moves up to `batch_max` messages (receive_many, send_many). A message is tried at
// once; only if there is none, or no room, does the coroutine wait until the socket is ready.
// Owns the descriptor; move-only; the destructor closes. Thread: that of the scheduler it was made
// on. Any number of coroutines may receive or send at once; each message goes to one of them.
// Errors: ringloop::error; what the network reported of an earlier message (ECONNREFUSED …) is
// thrown by the next call, and the socket goes on.
// Cancel: loses nothing and sends nothing.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "ringloop/detail/resident.hpp"
#include "ringloop/net/endpoint.hpp"
#include "ringloop/net/unix_endpoint.hpp"
#include "ringloop/scheduler.hpp"
#include "ringloop/task.hpp"

namespace ringloop::net {

template <class Address>
class datagram_socket {
  public:
    static constexpr std::size_t batch_max = 64;

    struct received {
        std::size_t size = 0;    // bytes put into the buffer; 0 is an empty message
        Address from;            // a default one if the sender has no name
        bool truncated = false;  // the message was longer than the buffer: the rest is gone
        // After join_received(): bytes of each of the messages that came as one, of the last maybe
        // fewer. Else `size`.
        std::size_t segment = 0;
    };
    // One of a batch: `buffer` is the caller's, the rest is filled in.
    struct incoming {
        std::span<std::byte> buffer;
        received got = {};
    };
    struct outgoing {
        std::span<const std::byte> bytes;
        Address to;
    };

    // On the running scheduler.
    [[nodiscard]] static datagram_socket bind(const Address& at);
    // Sends to `peer` and receives from it alone.
    [[nodiscard]] static task<datagram_socket> connect(Address peer);
    // Takes over a non-blocking socket.
    datagram_socket(scheduler& home, int socket) noexcept : socket_(home, socket) {}

    [[nodiscard]] task<received> receive_from(std::span<std::byte> into);
    // At least one message, at most `batch_max`; returns how many. Zero for an empty span.
    [[nodiscard]] task<std::size_t> receive_many(std::span<incoming> into);
    // The whole message (EMSGSIZE if that cannot be).
    [[nodiscard]] task<void> send_to(std::span<const std::byte> bytes, Address to);
    [[nodiscard]] task<void> send(std::span<const std::byte> bytes);  // of a connected socket
    // All of them, in order. An error names none of them: those before it were sent.
    [[nodiscard]] task<void> send_many(std::span<const outgoing> messages);

    // Sends `bytes` to one receiver as messages of `segment` bytes, the last maybe shorter. Over
    // UDP the kernel does the cutting (GSO, Linux 4.18), once for up to 64 KiB on the way through
    // its stack; where it does not, this is send_many(). Errors as there; std::invalid_argument for
    // a `segment` of 0. Cancel: a part of the messages may have been sent.
    [[nodiscard]] task<void> send_segments(std::span<const std::byte> bytes, std::size_t segment,
                                           Address to);
    // From here on messages of one sender and one size may come as one (GRO, Linux 5.0): see
    // received::segment. Buffers should hold 64 KiB then: of what does not fit the rest is gone.
    // False: the kernel, or this kind of socket, cannot, and all is as before.
    bool join_received();

    void set_option(int level, int name, int value);  // setsockopt(2)
    void close() noexcept { socket_.close(); }
    [[nodiscard]] explicit operator bool() const noexcept { return socket_.get() >= 0; }
    [[nodiscard]] int native_handle() const noexcept { return socket_.get(); }
    [[nodiscard]] Address local() const;

  private:
    [[nodiscard]] driver& io() const;
    [[nodiscard]] task<void> send_one(std::span<const std::byte> bytes, const Address* to);
    [[nodiscard]] bool cuts_segments();
    enum class answer : std::uint8_t { unknown, yes, no };
    ringloop::detail::resident_descriptor socket_;
    answer cuts_ = answer::unknown;  // the kernel, messages for us
    bool joins_ = false;             // received::segment comes with each message
};

extern template class datagram_socket<endpoint>;
extern template class datagram_socket<unix_endpoint>;

using udp_socket = datagram_socket<endpoint>;
using unix_datagram = datagram_socket<unix_endpoint>;

}  // namespace ringloop::net
