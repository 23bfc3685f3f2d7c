// The verbs of datagrams, on every body: order, addresses, sizes, what errors cost.
#include <poll.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "support/bodies.hpp"

using namespace ringloop;
using namespace ringloop::testing;

namespace {

struct address {
    sockaddr_storage bytes = {};
    socklen_t size = sizeof bytes;
    sockaddr* raw() { return reinterpret_cast<sockaddr*>(&bytes); }
};

// An abstract name: nothing is left in the file system.
address unix_name(const std::string& name) {
    address made;
    auto& to = reinterpret_cast<sockaddr_un&>(made.bytes);
    to.sun_family = AF_UNIX;
    const std::string whole = std::string(1, '\0') + "ringloop-" + std::to_string(getpid()) + name;
    whole.copy(to.sun_path, sizeof to.sun_path);
    made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + whole.size());
    return made;
}

struct endpoint {
    int fd = -1;
    address local;
};

endpoint make_endpoint(driver& d) {
    endpoint made;
    made.fd = d.make_socket(AF_INET, SOCK_DGRAM, 0);
    REQUIRE(made.fd >= 0);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(d.bind(made.fd, reinterpret_cast<sockaddr*>(&any), sizeof any) == 0);
    REQUIRE(d.local_address(made.fd, made.local.raw(), &made.local.size) == 0);
    return made;
}

// Messages of one piece each, with room for addresses.
struct batch {
    std::vector<std::string> bytes;
    std::vector<address> names;
    std::vector<iovec> pieces;
    std::vector<mmsghdr> headers;

    explicit batch(std::vector<std::string> texts) : bytes(std::move(texts)) {
        names.resize(bytes.size());
        pieces.resize(bytes.size());
        headers.resize(bytes.size());
        for (std::size_t i = 0; i < bytes.size(); ++i) {
            pieces[i] = {bytes[i].data(), bytes[i].size()};
            headers[i] = {};
            headers[i].msg_hdr.msg_iov = &pieces[i];
            headers[i].msg_hdr.msg_iovlen = 1;
            headers[i].msg_hdr.msg_name = &names[i].bytes;
            headers[i].msg_hdr.msg_namelen = sizeof names[i].bytes;
        }
    }
    static batch room(std::size_t count, std::size_t size = 2048) {
        return batch(std::vector<std::string>(count, std::string(size, '\0')));
    }
    batch& to(const address& where) {
        for (std::size_t i = 0; i < names.size(); ++i) {
            names[i] = where;
            headers[i].msg_hdr.msg_namelen = where.size;
        }
        return *this;
    }
    batch& to_peer() {
        for (mmsghdr& header : headers) {
            header.msg_hdr.msg_name = nullptr;
            header.msg_hdr.msg_namelen = 0;
        }
        return *this;
    }
    [[nodiscard]] std::string text(std::size_t i) const {
        return bytes[i].substr(0, headers[i].msg_len);
    }
};

// A datagram, or the error of an earlier one.
void wait_readable(driver& d, int fd) {
    recorder readable(d);
    readable.prepare_poll(fd, POLLIN);
    REQUIRE((readable.run() & (POLLIN | POLLERR)) != 0);
}

}  // namespace

TEST_CASE("a batch of datagrams arrives whole, in order, with its sender's address") {
    ON_EVERY_BODY(bench);
    endpoint from = make_endpoint(d);
    endpoint to = make_endpoint(d);
    batch sent({"one", "", std::string(1400, 'x'), "four"});
    CHECK(d.try_sendmmsg(from.fd, sent.to(to.local).headers) == 4);
    CHECK(sent.headers[2].msg_len == 1400);
    wait_readable(d, to.fd);
    batch got = batch::room(8);
    REQUIRE(d.try_recvmmsg(to.fd, got.headers) == 4);
    for (std::size_t i = 0; i < 4; ++i) {
        CHECK(got.text(i) == sent.bytes[i]);
        CHECK(got.headers[i].msg_hdr.msg_namelen == from.local.size);
        CHECK(std::memcmp(&got.names[i].bytes, &from.local.bytes, sizeof(sockaddr_in)) == 0);
        CHECK(got.headers[i].msg_hdr.msg_flags == 0);
    }
    CHECK(d.try_recvmmsg(to.fd, got.headers) == -EAGAIN);
    CHECK(d.close(from.fd) == 0);
    CHECK(d.close(to.fd) == 0);
}

TEST_CASE("a batch takes no more than there is room for") {
    ON_EVERY_BODY(bench);
    endpoint from = make_endpoint(d);
    endpoint to = make_endpoint(d);
    batch sent({"1", "2", "3"});
    REQUIRE(d.try_sendmmsg(from.fd, sent.to(to.local).headers) == 3);
    wait_readable(d, to.fd);
    batch got = batch::room(2);
    REQUIRE(d.try_recvmmsg(to.fd, got.headers) == 2);
    CHECK(got.text(1) == "2");
    wait_readable(d, to.fd);
    batch rest = batch::room(2);
    REQUIRE(d.try_recvmmsg(to.fd, rest.headers) == 1);
    CHECK(rest.text(0) == "3");
    CHECK(d.close(from.fd) == 0);
    CHECK(d.close(to.fd) == 0);
}

TEST_CASE("a datagram longer than its buffer is cut, and says so") {
    ON_EVERY_BODY(bench);
    endpoint from = make_endpoint(d);
    endpoint to = make_endpoint(d);
    REQUIRE(d.try_sendmmsg(from.fd, batch({"abcdef"}).to(to.local).headers) == 1);
    wait_readable(d, to.fd);
    batch got = batch::room(1, 4);
    REQUIRE(d.try_recvmmsg(to.fd, got.headers) == 1);
    CHECK(got.text(0) == "abcd");
    CHECK((got.headers[0].msg_hdr.msg_flags & MSG_TRUNC) != 0);
    CHECK(d.close(from.fd) == 0);
    CHECK(d.close(to.fd) == 0);
}

TEST_CASE("an error behind good datagrams shows at the next call") {
    ON_EVERY_BODY(bench);
    endpoint from = make_endpoint(d);
    endpoint to = make_endpoint(d);
    batch sent({"good", std::string(65508, 'x'), "behind"});
    sent.to(to.local);
    CHECK(d.try_sendmmsg(from.fd, sent.headers) == 1);
    const std::span<mmsghdr> rest(sent.headers);
    CHECK(d.try_sendmmsg(from.fd, rest.subspan(1)) == -EMSGSIZE);
    CHECK(d.try_sendmmsg(from.fd, rest.subspan(2)) == 1);
    wait_readable(d, to.fd);
    batch got = batch::room(4);
    REQUIRE(d.try_recvmmsg(to.fd, got.headers) == 2);
    CHECK(got.text(1) == "behind");
    CHECK(d.close(from.fd) == 0);
    CHECK(d.close(to.fd) == 0);
}

TEST_CASE("a connected socket learns that nobody is there, once for each datagram") {
    ON_EVERY_BODY(bench);
    endpoint from = make_endpoint(d);
    endpoint gone = make_endpoint(d);
    REQUIRE(d.close(gone.fd) == 0);
    recorder connect(d);
    connect.prepare_connect(from.fd, gone.local.raw(), gone.local.size);
    REQUIRE(connect.run() == 0);
    batch sent({"anybody?"});
    REQUIRE(d.try_sendmmsg(from.fd, sent.to_peer().headers) == 1);
    wait_readable(d, from.fd);
    batch got = batch::room(1);
    CHECK(d.try_recvmmsg(from.fd, got.headers) == -ECONNREFUSED);
    CHECK(d.try_recvmmsg(from.fd, got.headers) == -EAGAIN);
    CHECK(d.close(from.fd) == 0);
}

TEST_CASE("a datagram without a receiver's name needs a connected socket") {
    ON_EVERY_BODY(bench);
    endpoint from = make_endpoint(d);
    CHECK(d.try_sendmmsg(from.fd, batch({"to whom?"}).to_peer().headers) == -EDESTADDRREQ);
    CHECK(d.close(from.fd) == 0);
}

TEST_CASE("a full Unix receiver holds its sender back until it reads") {
    ON_EVERY_BODY(bench);
    address name = unix_name("receiver");
    const int to = d.make_socket(AF_UNIX, SOCK_DGRAM, 0);
    REQUIRE(d.bind(to, name.raw(), name.size) == 0);
    const int from = d.make_socket(AF_UNIX, SOCK_DGRAM, 0);
    recorder connect(d);
    connect.prepare_connect(from, name.raw(), name.size);
    REQUIRE(connect.run() == 0);
    batch one({"x"});
    one.to_peer();
    int sent = 0;
    int result = 0;
    while ((result = d.try_sendmmsg(from, one.headers)) == 1) ++sent;
    CHECK(result == -EAGAIN);
    CHECK(sent > 0);
    recorder writable(d);
    writable.prepare_poll(from, POLLOUT);
    d.submit(writable);
    d.poll();
    d.dispatch(phase::native);
    CHECK_FALSE(writable.over());
    batch got = batch::room(1, 16);
    for (int taken = 0; taken < sent; ++taken) {
        REQUIRE(d.try_recvmmsg(to, got.headers) == 1);
        CHECK(got.headers[0].msg_hdr.msg_namelen == 0);  // the sender has no name
    }
    turn_until(d, [&] { return writable.over(); });
    CHECK((writable.result() & POLLOUT) != 0);
    CHECK(d.try_sendmmsg(from, one.headers) == 1);
    CHECK(d.close(from) == 0);
    CHECK(d.close(to) == 0);
}

TEST_CASE("both verbs say what is no datagram socket") {
    ON_EVERY_BODY(bench);
    batch one({"x"});
    CHECK(d.try_sendmmsg(-1, one.to_peer().headers) == -EBADF);
    CHECK(d.try_recvmmsg(-1, one.headers) == -EBADF);
}
