// bodies: the list of driver bodies that a driver test runs on, and the bench it runs at: a driver
// whose ledger is checked, operations that record, sockets and files made through the driver alone
// (so that the simulated kernel has them, too).
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "ringloop/driver.hpp"
#include "ringloop/testing/fake_driver.hpp"
#include "support/ledger.hpp"

namespace ringloop::testing {

struct body {
    backend kind;
    friend std::ostream& operator<<(std::ostream& out, const body& b) {
        return out << name(b.kind);
    }
};

inline bool ring_works_here() {
    static const bool works = [] {
        try {
            return make_driver({.choice = backend::uring}) != nullptr;
        } catch (const std::system_error&) {
            return false;
        }
    }();
    return works;
}

inline std::vector<body> real_bodies() {
    if (ring_works_here()) return {{backend::uring}, {backend::epoll}};
    return {{backend::epoll}};
}

inline std::vector<body> all_bodies() {
    std::vector<body> all = real_bodies();
    all.push_back({backend::fake});
    return all;
}

inline std::unique_ptr<driver> make_body(const body& b, driver_config config = {}) {
    if (b.kind == backend::fake) {
        fake_config fake;
        fake.driver = config;
        auto made = std::make_unique<fake_driver>(fake);
        made->kernel().add_directory("/tmp");
        return made;
    }
    config.choice = b.kind;
    return make_driver(config);
}

inline bool turn(driver& d, std::int64_t patience_ns = 60'000'000'000) {
    const wait_result result = d.wait({.deadline_ns = d.now_ns() + patience_ns});
    d.dispatch(phase::native);
    d.dispatch(phase::host);
    return result != wait_result::timed_out;
}

template <typename Predicate>
void turn_until(driver& d, Predicate done) {
    for (int turns = 0; !done(); ++turns) {
        REQUIRE(turns < 100'000);
        REQUIRE(turn(d));
    }
}

// Records its completions; copies received bytes out and gives the buffer back, unless `keep`.
struct recorder : operation {
    explicit recorder(driver& d, bool for_host = false)
        : operation(&recorder::note, for_host), io(d) {}

    static void note(operation& op, const completion& c) noexcept {
        auto& self = static_cast<recorder&>(op);
        self.seen.push_back(c);
        if (c.buffer == no_buffer) return;
        self.data.append(std::string_view(reinterpret_cast<const char*>(self.io.buffer(c.buffer)),
                                          static_cast<std::size_t>(c.result)));
        if (!self.keep) self.io.release_buffer(c.buffer);
    }
    [[nodiscard]] bool over() const { return !seen.empty() && !seen.back().more; }
    [[nodiscard]] std::int32_t result() const {
        REQUIRE(over());
        return seen.back().result;
    }
    // Submits what has been prepared and turns until it is over.
    std::int32_t run() {
        seen.clear();
        io.submit(*this);
        turn_until(io, [this] { return over(); });
        return result();
    }

    driver& io;
    std::vector<completion> seen;
    std::string data;
    bool keep = false;
};

// A driver with its ledger.
struct workbench {
    explicit workbench(const body& b, const driver_config& config = {}) : d(make_body(b, config)) {}
    ~workbench() {
        d->retire_all();
        check_settled(*d);
    }
    ledger before;
    std::unique_ptr<driver> d;

    struct listening {
        int fd;
        sockaddr_in address;
    };
    listening listen(int backlog = 128) {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        const int fd = d->make_socket(AF_INET, SOCK_STREAM, 0);
        REQUIRE(fd >= 0);
        REQUIRE(d->bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
        REQUIRE(d->listen(fd, backlog) == 0);
        socklen_t size = sizeof address;
        REQUIRE(d->local_address(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0);
        return {fd, address};
    }
    struct pair {
        int near;
        int far;
    };
    pair connect_pair() {
        const listening l = listen();
        const pair made = connect_to(l);
        REQUIRE(d->close(l.fd) == 0);
        return made;
    }
    pair connect_to(const listening& l) {
        recorder accept(*d);
        accept.prepare_accept(l.fd, false);
        d->submit(accept);
        recorder connect(*d);
        const int near = d->make_socket(AF_INET, SOCK_STREAM, 0);
        connect.prepare_connect(near, reinterpret_cast<const sockaddr*>(&l.address),
                                sizeof l.address);
        REQUIRE(connect.run() == 0);
        turn_until(*d, [&] { return accept.over(); });
        REQUIRE(accept.result() >= 0);
        return {near, accept.result()};
    }
    void send(int fd, std::string_view text) {
        const iovec piece{const_cast<char*>(text.data()), text.size()};
        REQUIRE(d->try_send(fd, {&piece, 1}) == static_cast<ssize_t>(text.size()));
    }
    // What arrives until `size` bytes are there or the stream ends.
    std::string take(int fd, std::size_t size) {
        std::string all(size, '\0');
        std::size_t have = 0;
        recorder op(*d);
        while (have < size) {
            op.prepare_receive_into(fd, all.data() + have, size - have);
            const std::int32_t got = op.run();
            REQUIRE(got >= 0);
            if (got == 0) break;
            have += static_cast<std::size_t>(got);
        }
        all.resize(have);
        return all;
    }
    void close(pair p) {
        CHECK(d->close(p.near) == 0);
        CHECK(d->close(p.far) == 0);
    }
};

}  // namespace ringloop::testing

// Opens a test case that runs on every body: `bench` is its workbench, `d` the driver; further
// arguments configure the driver.
#define ON_EVERY_BODY(bench, ...)                                                                 \
    const ringloop::testing::body chosen = GENERATE(from_range(ringloop::testing::all_bodies())); \
    CAPTURE(chosen);                                                                              \
    ringloop::testing::workbench bench(chosen, ringloop::driver_config{__VA_ARGS__});             \
    [[maybe_unused]] ringloop::driver& d = *bench.d
