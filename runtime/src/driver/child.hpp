// child: starting another program, and the verbs of its pidfd.
//
// The caller's thread stands still from spawn_child() until the program has been exec'ed, as with
// vfork(): the child borrows its memory until then, so the size of this process does not count. The
// child has no descriptor but those it is told to keep, no signal blocked, and the dispositions
// that exec leaves, with SIGPIPE and SIGXFSZ at their defaults.
//
// Thread: any; nothing is allocated. Errors: negated errnos. Needs pidfds (Linux 5.4).
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

namespace ringloop::detail {

enum class spawn_step : unsigned char { process, descriptors, session, directory, program };

struct spawn_request {
    std::span<const std::string> candidates;  // paths, tried in turn; relative to `directory`
    char* const* arguments;                   // ends with a null pointer
    char* const* environment;                 // likewise
    const char* directory;                    // null: this process's
    std::array<int, 3> streams;               // what becomes 0, 1, 2; its own number: inherited
    std::span<const int> kept;                // further descriptors; sorted, all above 2
    bool new_session;
};

struct spawned {
    int pid = -1;
    int pidfd = -1;  // the caller's
    int error_number = 0;
    spawn_step failed_at = spawn_step::process;  // where there is an error
};
spawned spawn_child(const spawn_request& request) noexcept;

struct child_end {
    bool ended = false;
    int code = 0;    // of exit()
    int signal = 0;  // or what killed it
    bool core_dumped = false;
};
// Collects a child that has ended, or waits until it has.
int reap_child(int pidfd, bool wait, child_end& end) noexcept;
int signal_child(int pidfd, int number) noexcept;

// A descriptor of /dev/null.
int open_null() noexcept;
// The same file under a number above 2, which the streams of a child do not overwrite; `fd` itself,
// or closed. Takes a negated errno, too.
int above_streams(int fd) noexcept;

}  // namespace ringloop::detail
