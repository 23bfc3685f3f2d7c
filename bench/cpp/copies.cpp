// copies: what gathered writes, send_file(), registered memory, segments and zero-copy sending cost
// beside the plain way, in microseconds of the process's CPU, both ends included.
//
//     copies FOLDER          for its files; one on a disk, for O_DIRECT
//
// Best of several rounds, the ways in turns. Over loopback: a network card's figures for zero-copy
// sending are others.
#include <liburing.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ringloop/ringloop.hpp"

namespace rl = ringloop;
using bytes = std::span<const std::byte>;

namespace {

constexpr int rounds = 5;
constexpr std::size_t mebi = 1 << 20;

double cpu_us() {
    rusage used{};
    ::getrusage(RUSAGE_SELF, &used);
    const auto us = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_usec);
    };
    return us(used.ru_utime) + us(used.ru_stime);
}

using way = std::function<rl::task<void>()>;

// The least that each way took, a unit.
rl::task<void> compare(const char* what, double units, const char* unit, way plain, way other) {
    double best[2] = {1e18, 1e18};
    for (int round = 0; round < 2 * rounds; ++round) {
        const double begin = cpu_us();
        rl::task<void> run = round % 2 == 0 ? plain() : other();
        co_await std::move(run);
        best[round % 2] = std::min(best[round % 2], (cpu_us() - begin) / units);
    }
    std::printf("%-44s %9.3f %9.3f us/%s  %.2f\n", what, best[0], best[1], unit, best[1] / best[0]);
}

struct both {
    rl::net::tcp_stream near, far;
};
rl::task<both> connected() {
    auto listener = rl::net::tcp_listener::bind(rl::net::endpoint("127.0.0.1", 0));
    auto near = co_await rl::net::tcp_stream::connect(listener.local());
    auto far = co_await listener.accept();
    co_return both{std::move(near), std::move(far)};
}

rl::task<void> take(rl::net::tcp_stream& from, std::size_t size) {
    while (size != 0) {
        const auto chunk = co_await from.receive();
        if (!chunk) std::abort();
        size -= chunk.size();
    }
}

rl::task<void> gathered(std::size_t body_size) {
    constexpr int count = 2000;
    auto pair = co_await connected();
    const std::string head(200, 'h'), body(body_size, 'b');
    const std::array<bytes, 2> pieces{std::as_bytes(std::span(head)),
                                      std::as_bytes(std::span(body))};
    const auto joined = [&]() -> rl::task<void> {
        for (int i = 0; i < count; ++i) {
            const std::string whole = head + body;
            co_await pair.near.write_all(whole);
            co_await take(pair.far, whole.size());
        }
    };
    const auto apart = [&]() -> rl::task<void> {
        for (int i = 0; i < count; ++i) {
            co_await pair.near.write_all(pieces);
            co_await take(pair.far, head.size() + body.size());
        }
    };
    const std::string what = "joined, gathered: 200 + " + std::to_string(body_size) + " bytes";
    co_await compare(what.c_str(), count, "write", joined, apart);
}

rl::task<void> file_over_stream(const std::string& path, std::size_t size) {
    const int count = static_cast<int>(std::max<std::size_t>(64 * mebi / size / 4, 1));
    auto pair = co_await connected();
    const auto file = co_await rl::fs::open(path);
    const auto copied = [&]() -> rl::task<void> {
        std::vector<std::byte> memory(std::min<std::size_t>(size, 65536));
        for (std::size_t at = 0; at < size;) {
            const std::size_t got = co_await file.read_at(memory, static_cast<std::int64_t>(at));
            const auto part = bytes(memory).first(std::min(got, size - at));
            co_await pair.near.write_all(part);
            at += part.size();
        }
    };
    const auto many = [&](bool moved) -> rl::task<void> {
        for (int i = 0; i < count; ++i) {
            if (moved) {
                static_cast<void>(co_await pair.near.send_file(file, 0, size));
            } else {
                co_await copied();
            }
        }
    };
    const auto round = [&](bool moved) -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            group.spawn(many(moved));
            co_await take(pair.far, size * static_cast<std::size_t>(count));
        });
    };
    const std::string what = "read + write, send_file: " + std::to_string(size) + " bytes";
    co_await compare(
        what.c_str(), count, "file", [&] { return round(false); }, [&] { return round(true); });
}

rl::task<void> registered(const std::string& path, int flags, std::size_t size, int depth) {
    constexpr int count = 2000;
    const auto file = co_await rl::fs::open(path, O_RDONLY | flags);
    const rl::fs::aligned_buffer plain(size * static_cast<std::size_t>(depth));
    const rl::fs::registered_memory pinned(size * static_cast<std::size_t>(depth));
    const auto read = [&](int slot, bool by_number) -> rl::task<void> {
        const std::size_t at = static_cast<std::size_t>(slot) * size;
        for (int i = slot; i < count; i += depth) {
            const auto offset = static_cast<std::int64_t>(static_cast<std::size_t>(i) * 7919 %
                                                          (64 * mebi / size) * size);
            std::size_t got = 0;
            if (by_number) {
                got = co_await file.read_at(pinned.part(at, size), offset);
            } else {
                got = co_await file.read_at(plain.bytes().subspan(at, size), offset);
            }
            if (got != size) std::abort();
        }
    };
    const auto round = [&](bool by_number) -> rl::task<void> {
        co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
            for (int slot = 0; slot < depth; ++slot) group.spawn(read(slot, by_number));
            co_return;
        });
    };
    const std::string what = std::string("plain, registered: ") +
                             (flags == 0 ? "cached " : "O_DIRECT ") + std::to_string(size) +
                             " bytes, depth " + std::to_string(depth);
    co_await compare(
        what.c_str(), count, "read", [&] { return round(false); }, [&] { return round(true); });
}

rl::task<void> segments(std::size_t size) {
    constexpr std::size_t count = 40;
    constexpr int times = 200;
    auto server = rl::net::udp_socket::bind(rl::net::endpoint("127.0.0.1", 0));
    auto joining = rl::net::udp_socket::bind(rl::net::endpoint("127.0.0.1", 0));
    if (!joining.join_received()) co_return;
    auto client = rl::net::udp_socket::bind(rl::net::endpoint("127.0.0.1", 0));
    const std::vector<std::byte> text(count * size);
    std::vector<std::byte> memory(65536 * 4);
    const auto one_by_one = [&]() -> rl::task<void> {
        std::vector<rl::net::udp_socket::outgoing> out;
        for (std::size_t i = 0; i < count; ++i)
            out.push_back({bytes(text).subspan(i * size, size), server.local()});
        std::vector<rl::net::udp_socket::incoming> in(64);
        for (std::size_t i = 0; i < in.size(); ++i)
            in[i].buffer = std::span(memory).subspan(i * 2048, 2048);
        for (int i = 0; i < times; ++i) {
            co_await client.send_many(out);
            for (std::size_t got = 0; got < count;) got += co_await server.receive_many(in);
        }
    };
    const auto at_once = [&]() -> rl::task<void> {
        const auto to = joining.local();
        for (int i = 0; i < times; ++i) {
            co_await client.send_segments(text, size, to);
            for (std::size_t got = 0; got < text.size();) {
                const auto some = co_await joining.receive_from(memory);
                got += some.size;
            }
        }
    };
    const std::string what =
        "send_many, send_segments + joined: " + std::to_string(size) + " bytes";
    co_await compare(what.c_str(), static_cast<double>(count) * times, "message", one_by_one,
                     at_once);
}

// On a bare ring: ringloop has no zero-copy sending, and this is why.
void zero_copy(std::size_t size) {
    constexpr std::size_t total = 128 * mebi;
    io_uring ring{};
    if (::io_uring_queue_init(64, &ring, IORING_SETUP_COOP_TASKRUN) < 0) return;
    const std::vector<char> memory(size);
    double best[2] = {1e18, 1e18};
    for (int round = 0; round < 2 * rounds; ++round) {
        rl::sync_wait([&]() -> rl::task<void> {
            auto pair = co_await connected();
            const int to = pair.near.release(), from = pair.far.release();
            std::thread sink([from] {
                std::vector<char> into(1 << 18);
                while (::recv(from, into.data(), into.size(), 0) != 0) {
                }
            });
            const double begin = cpu_us();
            for (std::size_t sent = 0; sent < total;) {
                io_uring_sqe* sqe = ::io_uring_get_sqe(&ring);
                if (round % 2 == 0)
                    ::io_uring_prep_send(sqe, to, memory.data(), size, MSG_WAITALL);
                else
                    ::io_uring_prep_send_zc(sqe, to, memory.data(), size, MSG_WAITALL, 0);
                ::io_uring_submit_and_wait(&ring, 1);
                for (bool more = true; more;) {
                    io_uring_cqe* cqe = nullptr;
                    if (::io_uring_wait_cqe(&ring, &cqe) < 0 || cqe->res < 0) std::abort();
                    more = (cqe->flags & IORING_CQE_F_MORE) != 0;
                    if ((cqe->flags & IORING_CQE_F_NOTIF) == 0)
                        sent += static_cast<std::size_t>(cqe->res);
                    ::io_uring_cqe_seen(&ring, cqe);
                }
            }
            ::shutdown(to, SHUT_WR);
            sink.join();
            best[round % 2] = std::min(best[round % 2], (cpu_us() - begin) / (total / mebi));
            ::close(to);
            ::close(from);
        }());
    }
    ::io_uring_queue_exit(&ring);
    std::printf("%-44s %9.3f %9.3f us/%s  %.2f\n",
                ("send, SEND_ZC: " + std::to_string(size) + " bytes").c_str(), best[0], best[1],
                "MiB", best[1] / best[0]);
}

rl::task<void> all(const std::string& path) {
    co_await rl::fs::write_file(path, std::string(64 * mebi, 'x'));
    const auto file = co_await rl::fs::open(path, O_RDWR);
    co_await file.sync();
    co_await gathered(1024);
    co_await gathered(65536);
    for (const std::size_t size : std::array<std::size_t, 3>{16384, mebi / 4, 4 * mebi})
        co_await file_over_stream(path, size);
    for (const int flags : std::array<int, 2>{0, O_DIRECT})
        for (const std::size_t size : std::array<std::size_t, 2>{4096, 65536})
            for (const int depth : std::array<int, 2>{1, 32})
                co_await registered(path, flags, size, depth);
    co_await segments(200);
    co_await segments(1200);
}

}  // namespace

int main(int count, char** words) {
    if (count != 2) {
        std::fputs("usage: copies FOLDER\n", stderr);
        return 1;
    }
    const std::string path = std::string(words[1]) + "/copies.data";
    rl::sync_wait(all(path));
    std::filesystem::remove(path);
    for (const std::size_t size : std::array<std::size_t, 4>{16384, 65536, mebi / 4, mebi})
        zero_copy(size);
}
