// Datagram sockets: a try, and a wait where it would block.
#include "ringloop/net/datagram.hpp"

#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>

#include "net/try_until.hpp"
#include "ringloop/error.hpp"
#include "ringloop/net/detail/address_of.hpp"
#include "ringloop/net/detail/connect_await.hpp"

namespace ringloop::net {
namespace {

using ringloop::detail::checked;

void aim(mmsghdr& message, iovec& piece, const std::byte* data, std::size_t size) {
    piece = {const_cast<std::byte*>(data), size};
    message = {};
    message.msg_hdr.msg_iov = &piece;
    message.msg_hdr.msg_iovlen = 1;
}

template <class Address>
void address_to(mmsghdr& message, const Address& to) {
    message.msg_hdr.msg_name = const_cast<sockaddr*>(to.address());
    message.msg_hdr.msg_namelen = to.size();
}

constexpr std::size_t segments_max = 64;  // the kernel's, a message (128 since 6.9)
constexpr std::size_t udp_max = 65507;    // bytes, a message

// The control part of a message that is many: how large each of them is.
class segment_note {
  public:
    void ask(msghdr& message, std::uint16_t size) noexcept {
        bytes_ = {};
        message.msg_control = bytes_.data();
        message.msg_controllen = CMSG_SPACE(sizeof size);
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_UDP;
        head->cmsg_type = UDP_SEGMENT;
        head->cmsg_len = CMSG_LEN(sizeof size);
        std::memcpy(CMSG_DATA(head), &size, sizeof size);
    }
    void attach(msghdr& message) noexcept {
        message.msg_control = bytes_.data();
        message.msg_controllen = bytes_.size();
    }
    // Without a note it is one message, of `size`.
    [[nodiscard]] static std::size_t read(msghdr& message, std::size_t size) noexcept {
        for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr;
             head = CMSG_NXTHDR(&message, head)) {
            if (head->cmsg_level != SOL_UDP || head->cmsg_type != UDP_GRO) continue;
            int segment = 0;
            std::memcpy(&segment, CMSG_DATA(head), sizeof segment);
            return static_cast<std::size_t>(segment);
        }
        return size;
    }

  private:
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> bytes_;
};

template <class Address>
int family_of(const Address& at) {
    return at.address()->sa_family;
}

}  // namespace

template <class Address>
driver& datagram_socket<Address>::io() const {
    if (socket_.get() < 0)
        throw std::logic_error(
            "ringloop: the socket is closed, was moved from, or its scheduler has ended");
    return socket_.home().io();
}

template <class Address>
datagram_socket<Address> datagram_socket<Address>::bind(const Address& at) {
    scheduler& home = ringloop::detail::running_scheduler();
    datagram_socket made(
        home, checked(home.io().make_socket(family_of(at), SOCK_DGRAM, 0), "make a socket"));
    const std::string where = "bind to " + at.to_string();
    checked(home.io().bind(made.socket_.get(), at.address(), at.size()), where.c_str());
    return made;
}

template <class Address>
task<datagram_socket<Address>> datagram_socket<Address>::connect(Address peer) {
    scheduler& home = ringloop::detail::running_scheduler();
    datagram_socket made(
        home, checked(home.io().make_socket(family_of(peer), SOCK_DGRAM, 0), "make a socket"));
    co_await detail::connect_await<Address>(made.socket_.get(), peer);
    co_return made;
}

template <class Address>
task<std::size_t> datagram_socket<Address>::receive_many(std::span<incoming> into) {
    if (into.empty()) co_return 0;
    const std::size_t most = std::min(into.size(), batch_max);
    std::array<mmsghdr, batch_max> messages;
    std::array<iovec, batch_max> pieces;
    std::array<sockaddr_storage, batch_max> senders;
    std::array<segment_note, batch_max> notes;
    driver& door = io();
    const std::size_t count =
        co_await detail::try_until(socket_.get(), POLLIN, "receive a datagram", [&] {
            for (std::size_t i = 0; i < most; ++i) {
                aim(messages[i], pieces[i], into[i].buffer.data(), into[i].buffer.size());
                messages[i].msg_hdr.msg_name = &senders[i];
                messages[i].msg_hdr.msg_namelen = sizeof senders[i];
                if (joins_) notes[i].attach(messages[i].msg_hdr);
            }
            return door.try_recvmmsg(socket_.get(), std::span(messages).first(most));
        });
    for (std::size_t i = 0; i < count; ++i) {
        const msghdr& head = messages[i].msg_hdr;
        received& got = into[i].got;
        got.size = messages[i].msg_len;
        got.truncated = (head.msg_flags & MSG_TRUNC) != 0;
        got.segment = joins_ ? segment_note::read(messages[i].msg_hdr, got.size) : got.size;
        got.from = head.msg_namelen == 0
                       ? Address()
                       : Address(reinterpret_cast<const sockaddr*>(&senders[i]), head.msg_namelen);
    }
    co_return count;
}

template <class Address>
task<typename datagram_socket<Address>::received> datagram_socket<Address>::receive_from(
    std::span<std::byte> into) {
    incoming one{into};
    co_await receive_many({&one, 1});
    co_return one.got;
}

template <class Address>
task<void> datagram_socket<Address>::send_one(std::span<const std::byte> bytes, const Address* to) {
    iovec piece;
    mmsghdr message;
    aim(message, piece, bytes.data(), bytes.size());
    if (to != nullptr) address_to(message, *to);
    driver& door = io();
    co_await detail::try_until(socket_.get(), POLLOUT, "send a datagram", [&] {
        return door.try_sendmmsg(socket_.get(), {&message, 1});
    });
}

template <class Address>
task<void> datagram_socket<Address>::send_to(std::span<const std::byte> bytes, Address to) {
    co_await send_one(bytes, &to);
}

template <class Address>
task<void> datagram_socket<Address>::send(std::span<const std::byte> bytes) {
    return send_one(bytes, nullptr);
}

template <class Address>
task<void> datagram_socket<Address>::send_many(std::span<const outgoing> messages) {
    std::array<mmsghdr, batch_max> heads;
    std::array<iovec, batch_max> pieces;
    driver& door = io();
    while (!messages.empty()) {
        const std::size_t most = std::min(messages.size(), batch_max);
        for (std::size_t i = 0; i < most; ++i) {
            aim(heads[i], pieces[i], messages[i].bytes.data(), messages[i].bytes.size());
            address_to(heads[i], messages[i].to);
        }
        const std::size_t sent = co_await detail::try_until(
            socket_.get(), POLLOUT, "send datagrams",
            [&] { return door.try_sendmmsg(socket_.get(), std::span(heads).first(most)); });
        messages = messages.subspan(sent);
    }
}

template <class Address>
bool datagram_socket<Address>::cuts_segments() {
    if (cuts_ == answer::unknown) {
        int value = 0;
        socklen_t size = sizeof value;
        const int asked = io().get_option(socket_.get(), SOL_UDP, UDP_SEGMENT, &value, &size);
        cuts_ = asked < 0 ? answer::no : answer::yes;
    }
    return cuts_ == answer::yes;
}

template <class Address>
task<void> datagram_socket<Address>::send_segments(std::span<const std::byte> bytes,
                                                   std::size_t segment, Address to) {
    if (segment == 0) throw std::invalid_argument("ringloop: segments of no bytes");
    driver& door = io();
    while (segment <= udp_max && bytes.size() > segment && cuts_segments()) {
        const std::size_t most = std::min(segments_max, udp_max / segment) * segment;
        const auto part = bytes.first(std::min(bytes.size(), most));
        iovec piece;
        mmsghdr message;
        segment_note note;
        aim(message, piece, part.data(), part.size());
        address_to(message, to);
        note.ask(message.msg_hdr, static_cast<std::uint16_t>(segment));
        bool refused = false;
        co_await detail::try_until(socket_.get(), POLLOUT, "send segments", [&] {
            const int sent = door.try_sendmmsg(socket_.get(), {&message, 1});
            // A device that cannot, or one whose packets are smaller than a segment, which then
            // goes in fragments as any other message.
            refused = sent == -EIO || sent == -EINVAL;
            return refused ? 1 : sent;
        });
        if (refused) {
            cuts_ = answer::no;
            break;
        }
        bytes = bytes.subspan(part.size());
    }
    while (!bytes.empty()) {
        std::array<outgoing, batch_max> messages;
        std::size_t count = 0;
        for (; count < batch_max && !bytes.empty(); ++count) {
            const auto first = bytes.first(std::min(bytes.size(), segment));
            messages[count] = {first, to};
            bytes = bytes.subspan(first.size());
        }
        co_await send_many(std::span(messages).first(count));
    }
}

template <class Address>
bool datagram_socket<Address>::join_received() {
    const int on = 1;
    const int result = io().set_option(socket_.get(), SOL_UDP, UDP_GRO, &on, sizeof on);
    joins_ = result == 0;
    return joins_;
}

template <class Address>
void datagram_socket<Address>::set_option(int level, int name, int value) {
    checked(io().set_option(socket_.get(), level, name, &value, sizeof value),
            "set a socket option");
}

template <class Address>
Address datagram_socket<Address>::local() const {
    return detail::address_of<Address>(io(), socket_.get(), &driver::local_address,
                                       "local address");
}

template class datagram_socket<endpoint>;
template class datagram_socket<unix_endpoint>;

}  // namespace ringloop::net
