// watcher: a stream of inotify events, understood one by one.
#include "ringloop/fs/watch.hpp"

#include <sys/inotify.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"
#include "ringloop/fs/blocking.hpp"
#include "ringloop/fs/file.hpp"

namespace ringloop::fs {
namespace {

using kind = change::kind;

constexpr std::uint32_t watched = IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_CLOSE_WRITE | IN_DELETE |
                                  IN_DELETE_SELF | IN_MOVED_FROM | IN_MOVED_TO | IN_MOVE_SELF;
constexpr std::size_t buffer_size = 16 * 1024;  // hundreds of events; one takes up to 272 bytes

struct meaning {
    std::uint32_t mask;
    kind what;
};
constexpr std::array<meaning, 10> meanings{{
    {IN_Q_OVERFLOW, kind::overflow},
    {IN_IGNORED, kind::ended},
    {IN_CREATE, kind::created},
    {IN_MODIFY, kind::modified},
    {IN_ATTRIB, kind::modified},
    {IN_CLOSE_WRITE, kind::written},
    {IN_DELETE | IN_DELETE_SELF, kind::deleted},
    {IN_MOVED_FROM, kind::moved_from},
    {IN_MOVE_SELF, kind::moved_from},
    {IN_MOVED_TO, kind::moved_to},
}};

}  // namespace

watcher::watcher()
    : events_(ringloop::detail::running_scheduler(),
              ringloop::detail::checked(open_watcher(), "make a watcher")) {}

task<void> watcher::add(std::filesystem::path path) {
    // The ring does the lookup, which may wait for a disk; the kernel then knows the path by heart.
    // The watch itself is made here, so that its number is known before its first event is read.
    static_cast<void>(co_await fs::status(path));
    const int number =
        ringloop::detail::checked(add_watch(events_.native_handle(), path.c_str(), watched),
                                  ("watch " + path.string()).c_str());
    paths_[number] = std::move(path);
}

void watcher::remove(const std::filesystem::path& path) {
    for (const auto& [number, watched_path] : paths_) {
        if (watched_path != path) continue;
        // EINVAL: it has ended, and its last event is on the way.
        static_cast<void>(remove_watch(events_.native_handle(), number));
        return;
    }
}

task<change> watcher::next() {
    if (busy_) throw std::logic_error("ringloop: a watcher's next() is under way already");
    const struct guard {
        explicit guard(bool& flag) noexcept : busy(flag) { busy = true; }
        ~guard() { busy = false; }
        guard(const guard&) = delete;
        guard& operator=(const guard&) = delete;
        bool& busy;
    } reading(busy_);
    std::vector<std::byte> buffer(read_.empty() ? buffer_size : 0);
    while (read_.empty()) {
        const std::size_t size = co_await events_.read_some(buffer);
        understand(std::span(buffer).first(size));
    }
    change first = std::move(read_.front());
    read_.pop_front();
    co_return first;
}

void watcher::understand(std::span<const std::byte> events) {
    while (events.size() >= sizeof(inotify_event)) {
        inotify_event event{};
        std::memcpy(&event, events.data(), sizeof event);
        const auto* const name = reinterpret_cast<const char*>(events.data() + sizeof event);
        const std::size_t name_size = ::strnlen(name, event.len);
        events = events.subspan(sizeof event + event.len);
        const auto place = paths_.find(event.wd);
        for (const meaning& each : meanings) {
            if ((event.mask & each.mask) == 0) continue;
            change seen{each.what};
            if (place != paths_.end()) {
                seen.path = place->second;
                if (name_size != 0) seen.path /= std::string_view(name, name_size);
            }
            seen.directory = (event.mask & IN_ISDIR) != 0;
            seen.move = event.cookie;
            read_.push_back(std::move(seen));
            break;
        }
        if ((event.mask & IN_IGNORED) != 0 && place != paths_.end()) paths_.erase(place);
    }
}

}  // namespace ringloop::fs
