// static_files: serves the files of one folder over HTTP.
//
//     static_files ADDRESS PORT FOLDER
//
// GET and HEAD over connections that are kept; a folder is its index.html. Boost.Beast reads the
// requests, ringloop does all I/O. Sandbox: the kernel itself refuses a path that leaves FOLDER, by
// ".." or by a link (RESOLVE_BENEATH), so that there is no check to be outrun.
// Limits: `connections_max`, `head_max` bytes of a request's head, no request bodies, `idle_limit`
// for a request to arrive, `write_limit` for a piece of an answer to be taken.
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <ringloop/ringloop.hpp>

#include "serving.hpp"

namespace rl = ringloop;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

namespace {

constexpr std::size_t connections_max = 1000;
constexpr std::uint32_t head_max = 8 * 1024;
constexpr std::int64_t piece_size = 64 * 1024;
constexpr auto idle_limit = 15s;
constexpr auto write_limit = 30s;

struct request {
    http::status verdict = http::status::ok;  // anything else refuses it
    std::string path;                         // decoded, without a slash before it
    bool head_only = false;
    bool keep_alive = false;
};

// The path of a request's target, "/a%20b?c" or "http://host/a%20b"; nothing if it has none.
std::optional<std::string> path_of(std::string_view target) {
    if (target.starts_with("http://")) {
        target.remove_prefix(7);
        target.remove_prefix(std::min(target.find('/'), target.size()));
    }
    if (!target.starts_with('/')) return std::nullopt;
    target = target.substr(0, target.find_first_of("?#"));
    target.remove_prefix(std::min(target.find_first_not_of('/'), target.size()));
    std::string path;
    for (std::size_t at = 0; at < target.size(); ++at) {
        unsigned char letter = static_cast<unsigned char>(target[at]);
        if (letter == '%') {
            const char* digits = target.data() + at + 1;
            if (at + 2 >= target.size() ||
                std::from_chars(digits, digits + 2, letter, 16).ptr != digits + 2)
                return std::nullopt;
            at += 2;
        }
        if (letter == 0) return std::nullopt;
        path += static_cast<char>(letter);
    }
    return path;
}

request judge(const http::request_parser<http::empty_body>& parser) {
    const auto& message = parser.get();
    const bool has_body = parser.chunked() || parser.content_length().value_or(0) != 0;
    request found;
    found.head_only = message.method() == http::verb::head;
    found.keep_alive = parser.keep_alive() && !has_body;  // a body is never read
    const auto target = message.target();
    const auto path = path_of(std::string_view(target.data(), target.size()));
    if (!path || (message.version() == 11 && message.count(http::field::host) != 1)) {
        found.verdict = http::status::bad_request;
        found.keep_alive = false;
    } else if (message.method() != http::verb::get && !found.head_only) {
        found.verdict = http::status::method_not_allowed;
    } else if (has_body) {
        found.verdict = http::status::payload_too_large;
    } else {
        found.path = *path;
    }
    return found;
}

// The next request; nothing at the end of the connection. `unread` is what came after it.
rl::task<std::optional<request>> read_request(rl::net::tcp_stream& from, std::string& unread) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(head_max);
    while (true) {
        boost::system::error_code wrong;
        unread.erase(0, parser.put(boost::asio::buffer(unread), wrong));
        if (parser.is_header_done()) co_return judge(parser);
        if (wrong && wrong != http::error::need_more) {
            request refused;
            refused.verdict = wrong == http::error::header_limit
                                  ? http::status::request_header_fields_too_large
                                  : http::status::bad_request;
            co_return refused;
        }
        const auto chunk = co_await from.receive();
        if (!chunk) co_return std::nullopt;
        unread += chunk.text();
    }
}

rl::task<void> write(rl::net::tcp_stream& to, std::span<const std::byte> bytes) {
    co_await to.write_all(bytes);
}

rl::task<void> write_head(rl::net::tcp_stream& to, http::status status, const request& asked,
                          std::string_view type, std::int64_t size, std::string_view body = {}) {
    const auto reason = http::obsolete_reason(status);
    std::string text = "HTTP/1.1 " + std::to_string(static_cast<unsigned>(status)) + ' ';
    text.append(reason.data(), reason.size());
    text.append("\r\nContent-Type: ").append(type);
    text += "\r\nContent-Length: " + std::to_string(size);
    if (status == http::status::method_not_allowed) text += "\r\nAllow: GET, HEAD";
    text +=
        asked.keep_alive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
    if (!asked.head_only) text += body;
    co_await rl::with_timeout(write_limit, write(to, std::as_bytes(std::span(text))));
}

rl::task<void> refuse(rl::net::tcp_stream& to, http::status status, const request& asked) {
    const auto reason = http::obsolete_reason(status);
    const std::string body = std::string(reason.data(), reason.size()) + "\n";
    co_await write_head(to, status, asked, "text/plain", static_cast<std::int64_t>(body.size()),
                        body);
}

std::string_view type_of(std::string_view path) {
    static const std::map<std::string_view, std::string_view> types{
        {"css", "text/css"},       {"html", "text/html; charset=utf-8"}, {"jpg", "image/jpeg"},
        {"js", "text/javascript"}, {"json", "application/json"},         {"png", "image/png"},
        {"svg", "image/svg+xml"},  {"txt", "text/plain; charset=utf-8"}};
    const auto found = types.find(path.substr(path.rfind('.') + 1));
    return found == types.end() ? "application/octet-stream" : found->second;
}

class site {
  public:
    // Throws std::system_error if there is no such folder.
    explicit site(const char* folder) : folder_(open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC)) {
        if (folder_ < 0) throw std::system_error(errno, std::generic_category(), folder);
    }
    ~site() { close(folder_); }
    site(const site&) = delete;
    site& operator=(const site&) = delete;

    // A worker opens it: a path may wait for a disk. Empty if there is none that may be shown.
    rl::task<rl::fs::file> find(const std::string& path) {
        const int fd = co_await rl::offload(workers_, [&] { return open_beneath(path.c_str()); });
        if (fd >= 0) co_return rl::fs::file(*rl::scheduler::current(), fd);
        for (const int usual : {ENOENT, ENOTDIR, EXDEV, ELOOP, EACCES, ENAMETOOLONG, ENXIO}) {
            if (fd == -usual) co_return rl::fs::file();
        }
        throw std::system_error(-fd, std::generic_category(), "open " + path);
    }

  private:
    // Not blocking, lest a FIFO holds the worker.
    [[nodiscard]] int open_beneath(const char* path) const noexcept {
        open_how how{};
        how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
        const long fd = syscall(SYS_openat2, folder_, path, &how, sizeof how);
        return fd < 0 ? -errno : static_cast<int>(fd);
    }
    int folder_;
    rl::thread_pool workers_{2};
};

rl::task<void> send_file(rl::net::tcp_stream& to, const rl::fs::file& file, std::int64_t size) {
    std::vector<std::byte> memory(static_cast<std::size_t>(std::min(size, piece_size)));
    for (std::int64_t at = 0; at < size;) {
        const auto wanted = static_cast<std::size_t>(std::min(size - at, piece_size));
        const std::size_t got = co_await file.read_at(std::span(memory).first(wanted), at);
        if (got == 0) throw std::runtime_error("a file became shorter while it was sent");
        co_await rl::with_timeout(write_limit, write(to, std::span(memory).first(got)));
        at += static_cast<std::int64_t>(got);
    }
}

rl::task<void> answer(rl::net::tcp_stream& to, const request& asked, site& files) {
    if (asked.verdict != http::status::ok) {
        co_await refuse(to, asked.verdict, asked);
        co_return;
    }
    std::string path = asked.path;
    if (path.empty() || path.ends_with('/')) path += "index.html";
    const auto file = co_await files.find(path);
    struct statx status {};
    if (file) status = co_await file.status();
    if (!S_ISREG(status.stx_mode)) {
        co_await refuse(to, http::status::not_found, asked);
        co_return;
    }
    const auto size = static_cast<std::int64_t>(status.stx_size);
    co_await write_head(to, http::status::ok, asked, type_of(path), size);
    if (!asked.head_only) co_await send_file(to, file, size);
}

// What the client still sends is read and dropped for a while: a close with bytes unread would be
// a reset, which may take the answer with it.
rl::task<void> drain(rl::net::tcp_stream& from) {
    from.shutdown(rl::net::direction::send);
    while (auto chunk = co_await from.receive()) chunk.release();
}

rl::task<void> session(rl::net::tcp_stream stream, site& files, rl::semaphore::permit turn) {
    const auto given_back_at_the_end = std::move(turn);
    std::string unread;
    try {
        while (auto asked = co_await rl::with_timeout(idle_limit, read_request(stream, unread))) {
            co_await answer(stream, *asked, files);
            if (asked->keep_alive) continue;
            co_await rl::with_timeout(1s, drain(stream));
            break;
        }
    } catch (const rl::timed_out&) {
        // Idle, or too slow: such connections are closed without a word.
    }
}

rl::task<void> serve(rl::net::endpoint at, const char* folder) {
    site files(folder);
    auto listener = serving::listen(at);
    rl::semaphore connections(connections_max);
    co_await rl::with_group([&](rl::task_group& sessions) -> rl::task<void> {
        while (true) {
            auto permit = co_await connections.acquire();
            auto stream = co_await listener.accept();
            sessions.spawn(session(std::move(stream), files, std::move(permit)), rl::on_error::log);
        }
    });
}

}  // namespace

int main(int count, char** words) try {
    if (count != 4) throw std::invalid_argument("usage: static_files ADDRESS PORT FOLDER");
    return rl::run(serve({words[1], serving::port(words[2])}, words[3]));
} catch (const std::exception& failure) {
    std::cerr << "static_files: " << failure.what() << '\n';
    return 1;
}
