// ledger: what a test must leave as it found it. Descriptors by number and target; a driver with
// nothing in flight and no buffer given out.
//
// Declare the ledger before the driver: it looks again in its destructor, after the driver's end.
#pragma once

#include <dirent.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>

#include "ringloop/driver.hpp"

namespace ringloop::testing {

inline std::map<int, std::string> open_descriptors() {
    std::map<int, std::string> found;
    DIR* folder = ::opendir("/proc/self/fd");
    while (const dirent* entry = ::readdir(folder)) {
        const int fd = std::atoi(entry->d_name);
        if (entry->d_name[0] == '.' || fd == ::dirfd(folder)) continue;
        char target[256] = {};
        const std::string link = std::string("/proc/self/fd/") + entry->d_name;
        const ssize_t size = ::readlink(link.c_str(), target, sizeof target - 1);
        found[fd] = size > 0 ? std::string(target, static_cast<std::size_t>(size)) : "?";
    }
    ::closedir(folder);
    return found;
}

class ledger {
  public:
    ledger() : before_(open_descriptors()) {}
    ~ledger() { CHECK(open_descriptors() == before_); }
    ledger(const ledger&) = delete;
    ledger& operator=(const ledger&) = delete;

  private:
    std::map<int, std::string> before_;
};

inline void check_settled(const driver& d) {
    CHECK(d.in_flight() == 0);
    CHECK(d.leased_buffers() == 0);
    CHECK(d.undelivered(phase::native) == 0);
    CHECK(d.undelivered(phase::host) == 0);
    CHECK(d.counters().stale == 0);
}

}  // namespace ringloop::testing
