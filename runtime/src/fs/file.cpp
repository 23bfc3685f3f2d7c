// Files: opening, closing, and the checks of their arguments.
#include "ringloop/fs/file.hpp"

#include <cerrno>
#include <stdexcept>
#include <string>

#include "ringloop/error.hpp"

namespace ringloop::fs {
namespace {

class open_await : public ringloop::detail::operation_await {
  public:
    open_await(scheduler& home, const std::filesystem::path& path, int flags, mode_t mode)
        : home_to_be_(home), path_(path) {
        op_.prepare_open(AT_FDCWD, path_.c_str(), flags, mode);
    }
    file await_resume() const {
        return {home_to_be_, finish([this] { return "open " + path_.string(); })};
    }

  private:
    scheduler& home_to_be_;
    const std::filesystem::path& path_;
};

// Runs to its end whatever the scope says: a close that did not happen would leak.
class close_await : public ringloop::detail::operation_await {
  public:
    explicit close_await(int fd) noexcept { op_.prepare_close(fd); }
    bool await_suspend(std::coroutine_handle<> handle) {
        return operation_await::await_suspend(handle);
    }
    void await_resume() const { static_cast<void>(finish("close")); }
};

}  // namespace

task<file> open(std::filesystem::path path, int flags, mode_t mode) {
    scheduler& home = ringloop::detail::running_scheduler();
    co_return co_await open_await(home, path, flags, mode);
}

detail::status_await status(std::filesystem::path path) {
    return {AT_FDCWD, std::move(path), 0};
}

task<void> file::close() {
    static_cast<void>(checked_fd());
    co_await close_await(fd_.release());
}

int file::checked_fd() const {
    if (fd_.get() < 0)
        throw std::logic_error(
            "ringloop: the file is closed, was moved from, or its scheduler has ended");
    return fd_.get();
}

registered_span file::checked_memory(registered_span of) const {
    if (of.number() >= 0 && of.home() != &fd_.home())
        throw std::logic_error("ringloop: the memory is registered with another scheduler");
    return of;
}

std::int64_t file::checked_offset(std::int64_t at) {
    if (at < 0)
        throw std::invalid_argument("ringloop: the offset is " + std::to_string(at) +
                                    "; it must not be negative");
    return at;
}

}  // namespace ringloop::fs
