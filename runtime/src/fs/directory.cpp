// read_directory: batches from a worker, handed out one by one.
#include "ringloop/fs/directory.hpp"

#include "fs/on_worker.hpp"
#include "ringloop/error.hpp"
#include "ringloop/fs/blocking.hpp"

namespace ringloop::fs {
namespace {

constexpr std::size_t batch_max = 1024;  // entries

}  // namespace

generator<directory_entry> read_directory(std::filesystem::path path, bool kinds) {
    const std::string what = "read the directory " + path.string();
    directory_reader directory;
    co_await on_worker(what.c_str(), [&](const std::atomic<bool>&) noexcept {
        return directory.open(path.c_str());
    });
    std::vector<directory_entry> batch;
    for (int more = 1; more != 0;) {
        batch.clear();
        more = co_await on_worker(what.c_str(), [&](const std::atomic<bool>& stop) noexcept {
            return directory.read(batch_max, kinds, stop, batch);
        });
        for (directory_entry& entry : batch) co_yield std::move(entry);
    }
}

}  // namespace ringloop::fs
