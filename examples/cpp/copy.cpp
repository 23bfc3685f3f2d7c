// copy: copies a file or a tree, many pieces at once, and shows how far it is.
//
//     copy SOURCE TARGET
//
// TARGET must not exist. Each file is cut into pieces; at most `pieces_max` are read or written at
// any time, of at most `files_max` files. A file that could not be copied whole (an error, or
// SIGINT) is removed again, the others stay. Symbolic links are copied as links; what is neither
// file, folder nor link is refused.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <ringloop/ringloop.hpp>

namespace rl = ringloop;
namespace paths = std::filesystem;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t piece_size = 256 * 1024;
constexpr std::size_t pieces_max = 16;
constexpr std::size_t files_max = 8;

struct job {
    paths::path from;
    paths::path to;
    std::int64_t size = 0;
};

// Makes the folders and links of the target; what is left to do is files. Runs on a worker: walking
// a tree blocks.
std::vector<job> prepare(const paths::path& from, const paths::path& to) {
    if (paths::exists(paths::symlink_status(to)))
        throw std::invalid_argument(to.string() + " exists already");
    std::vector<job> found;
    const auto take = [&](const paths::path& source, const paths::path& target) {
        const auto status = paths::symlink_status(source);
        if (paths::is_directory(status)) {
            paths::create_directory(target, source);
        } else if (paths::is_symlink(status)) {
            paths::copy_symlink(source, target);
        } else if (paths::is_regular_file(status)) {
            found.push_back({source, target, static_cast<std::int64_t>(paths::file_size(source))});
        } else {
            throw std::invalid_argument(source.string() + " is neither file, folder nor link");
        }
    };
    take(from, to);
    if (paths::is_directory(paths::symlink_status(from))) {
        for (const auto& entry : paths::recursive_directory_iterator(from))
            take(entry.path(), to / entry.path().lexically_relative(from));
    }
    return found;
}

struct progress {
    std::int64_t bytes_all = 0;
    std::int64_t bytes_done = 0;
};

void draw(const progress& now) {
    constexpr std::int64_t width = 40;
    const std::int64_t share = now.bytes_all == 0 ? 100 : now.bytes_done * 100 / now.bytes_all;
    const std::string full(static_cast<std::size_t>(share * width / 100), '#');
    std::cerr << "\r[" << full << std::string(width - full.size(), '.') << "] " << share << " %"
              << std::flush;
}

rl::task<void> draw_now_and_then(const progress& now) {
    rl::interval ticks(100ms);
    while (true) {
        draw(now);
        co_await ticks.next();
    }
}

// Of a target that is removed again unless done() is called.
class unfinished {
  public:
    explicit unfinished(paths::path target) : target_(std::move(target)) {}
    ~unfinished() {
        std::error_code ignored;  // there is nobody to tell, and an error is on its way already
        if (!target_.empty()) paths::remove(target_, ignored);
    }
    unfinished(const unfinished&) = delete;
    unfinished& operator=(const unfinished&) = delete;
    void done() noexcept { target_.clear(); }

  private:
    paths::path target_;
};

rl::task<void> copy_piece(const rl::fs::file& from, const rl::fs::file& to, std::int64_t offset,
                          std::int64_t size, progress& seen, rl::semaphore::permit turn) {
    const auto given_back_at_the_end = std::move(turn);
    std::vector<std::byte> memory(static_cast<std::size_t>(size));
    std::span<std::byte> piece(memory);
    for (auto rest = piece; !rest.empty();) {
        const std::size_t got = co_await from.read_at(
            rest, offset + static_cast<std::int64_t>(piece.size() - rest.size()));
        if (got == 0) throw std::runtime_error("the source became shorter while it was copied");
        rest = rest.subspan(got);
    }
    for (auto rest = piece; !rest.empty();) {
        const std::size_t put = co_await to.write_at(
            rest, offset + static_cast<std::int64_t>(piece.size() - rest.size()));
        rest = rest.subspan(put);
        seen.bytes_done += static_cast<std::int64_t>(put);
    }
}

rl::task<void> copy_file(const job& work, rl::semaphore& pieces, progress& seen,
                         rl::semaphore::permit turn) {
    const auto given_back_at_the_end = std::move(turn);
    const auto from = co_await rl::fs::open(work.from);
    const auto status = co_await from.status();
    auto to = co_await rl::fs::open(work.to, O_WRONLY | O_CREAT | O_EXCL, status.stx_mode & 0777);
    unfinished guard(work.to);
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        for (std::int64_t at = 0; at < work.size; at += piece_size) {
            auto permit = co_await pieces.acquire();
            const std::int64_t size = std::min(piece_size, work.size - at);
            group.spawn(copy_piece(from, to, at, size, seen, std::move(permit)));
        }
    });
    co_await to.close();
    guard.done();
}

rl::task<void> copy_all(const std::vector<job>& jobs, progress& seen) {
    rl::semaphore files(files_max);
    rl::semaphore pieces(pieces_max);
    co_await rl::with_group([&](rl::task_group& group) -> rl::task<void> {
        for (const job& each : jobs) {
            auto permit = co_await files.acquire();
            group.spawn(copy_file(each, pieces, seen, std::move(permit)));
        }
    });
}

rl::task<void> copy(paths::path from, paths::path to, bool& complete) {
    rl::thread_pool worker(1);
    const auto jobs = co_await rl::offload(worker, [&] { return prepare(from, to); });
    progress seen;
    for (const job& each : jobs) seen.bytes_all += each.size;
    if (isatty(STDERR_FILENO) == 0) {
        co_await copy_all(jobs, seen);
    } else {
        // The first of the two to end stops the other, and the bar never ends by itself.
        co_await rl::when_any(copy_all(jobs, seen), draw_now_and_then(seen));
        draw(seen);
        std::cerr << '\n';
    }
    std::cout << jobs.size() << " files, " << seen.bytes_done << " bytes\n";
    complete = true;
}

}  // namespace

int main(int count, char** words) try {
    if (count != 3) throw std::invalid_argument("usage: copy SOURCE TARGET");
    bool complete = false;  // not after SIGINT, which is no error
    rl::run(copy(words[1], words[2], complete));
    return complete ? 0 : 1;
} catch (const std::exception& failure) {
    std::cerr << "copy: " << failure.what() << '\n';
    return 1;
}
