// Names: one operation each.
#include "ringloop/fs/path.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "fs/on_worker.hpp"
#include "ringloop/error.hpp"
#include "ringloop/fs/blocking.hpp"
#include "ringloop/fs/file.hpp"

namespace ringloop::fs {
namespace {

using std::filesystem::path;

// `prepare` fills in the operation; what it refers to lives in the frame that awaits.
class name_await : public ringloop::detail::operation_await {
  public:
    template <class Prepare>
    name_await(std::string what, Prepare prepare) : what_(std::move(what)) {
        prepare(op_);
    }
    void await_resume() const { static_cast<void>(finish(what_.c_str())); }

  private:
    std::string what_;
};

}  // namespace

task<void> rename(path from, path to, bool replace) {
    const unsigned flags = replace ? 0 : RENAME_NOREPLACE;
    co_await name_await("rename " + from.string() + " to " + to.string(), [&](operation& op) {
        op.prepare_rename(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), static_cast<int>(flags));
    });
}

task<void> unlink(path name) {
    co_await name_await("unlink " + name.string(),
                        [&](operation& op) { op.prepare_unlink(AT_FDCWD, name.c_str()); });
}

task<void> mkdir(path name, mode_t mode) {
    co_await name_await("mkdir " + name.string(),
                        [&](operation& op) { op.prepare_mkdir(AT_FDCWD, name.c_str(), mode); });
}

task<void> rmdir(path name) {
    co_await name_await("rmdir " + name.string(), [&](operation& op) {
        op.prepare_unlink(AT_FDCWD, name.c_str(), AT_REMOVEDIR);
    });
}

task<void> make_directories(path name, mode_t mode) {
    path so_far;
    for (const path& part : name) {
        so_far /= part;
        int failure = 0;
        try {
            co_await fs::mkdir(so_far, mode);
        } catch (const error& e) {
            failure = e.code().value();
        }
        if (failure == 0) continue;
        // There already, or on a file system that answers something else first (EROFS, EACCES).
        bool there = false;
        try {
            const struct statx found = co_await fs::status(so_far);
            there = S_ISDIR(found.stx_mode);
        } catch (const error&) {
            there = false;  // the failure above says more
        }
        if (!there) ringloop::detail::throw_error(failure, ("mkdir " + so_far.string()).c_str());
    }
}

task<void> link(path existing, path name) {
    co_await name_await("link " + existing.string() + " as " + name.string(), [&](operation& op) {
        op.prepare_link(AT_FDCWD, existing.c_str(), AT_FDCWD, name.c_str());
    });
}

task<void> symlink(path target, path name) {
    co_await name_await("make the link " + name.string(), [&](operation& op) {
        op.prepare_symlink(target.c_str(), AT_FDCWD, name.c_str());
    });
}

task<path> read_link(path name) {
    std::string target;
    const std::string what = "read the link " + name.string();
    co_await on_worker(what.c_str(), [&](const std::atomic<bool>&) noexcept {
        return read_link(name.c_str(), target);
    });
    co_return path(std::move(target));
}

task<void> chmod(path name, mode_t mode) {
    const std::string what = "change the mode of " + name.string();
    co_await on_worker(what.c_str(), [&](const std::atomic<bool>&) noexcept {
        return change_mode(name.c_str(), mode);
    });
}

task<struct statx> link_status(path name) {
    struct statx found {};
    co_await name_await("status of " + name.string(), [&](operation& op) {
        op.prepare_statx(AT_FDCWD, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &found);
    });
    co_return found;
}

task<bool> exists(path name) {
    try {
        co_await fs::status(name);
    } catch (const error& e) {
        const int number = e.code().value();
        if (number != ENOENT && number != ENOTDIR) throw;
        co_return false;
    }
    co_return true;
}

}  // namespace ringloop::fs
