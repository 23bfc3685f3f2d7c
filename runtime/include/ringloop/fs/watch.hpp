// watcher: changes of files and of directories' entries, as they happen (inotify).
//
//     fs::watcher watch;
//     co_await watch.add("/etc/app");
//     while (true) {
//         fs::change seen = co_await watch.next();
//         …
//     }
//
// A directory is watched with the entries that it has directly, not with what is below those. The
// kernel keeps what nobody takes (16,384 changes, /proc/sys/fs/inotify); when it has to drop some,
// next() says so by one `overflow`: look at the files themselves then.
// Owns an inotify descriptor, which is on the ring like any other: no thread waits. Move-only, not
// while a next() is under way; the destructor ends all watches.
// Thread: the scheduler's. Errors: ringloop::error. Cancel loses nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>

#include "ringloop/process/pipe.hpp"
#include "ringloop/task.hpp"

namespace ringloop::fs {

struct change {
    enum class kind : std::uint8_t {
        created,
        modified,    // its bytes, or what its status says
        written,     // somebody has closed it, who had it open for writing
        deleted,     // a watched file itself: when its last name and user have gone
        moved_from,  // away from here; a watched path itself goes on being watched, by its old name
        moved_to,    // to here
        overflow,    // changes were lost; no path
        ended,       // the last of a watch: what it watched has gone, or it was removed
    };
    kind what = kind::overflow;
    std::filesystem::path path = {};  // the path that was watched, or of its entry
    bool directory = false;
    std::uint32_t move = 0;  // not 0: the number of a move, the same for both of its halves
};

class watcher {
  public:
    // On the running scheduler.
    watcher();

    // From the return on. A file that is replaced (renamed over) is another one: watch its
    // directory. Twice the same file: the path of the second replaces that of the first.
    [[nodiscard]] task<void> add(std::filesystem::path path);
    // By the path that was given; nothing happens for one that is not watched (any more). What has
    // happened before is still told.
    void remove(const std::filesystem::path& path);
    // One at a time (std::logic_error).
    [[nodiscard]] task<change> next();

  private:
    void understand(std::span<const std::byte> events);
    pipe_reader events_;
    std::map<int, std::filesystem::path> paths_;  // by the kernel's number
    std::deque<change> read_;                     // not yet taken
    bool busy_ = false;
};

}  // namespace ringloop::fs
