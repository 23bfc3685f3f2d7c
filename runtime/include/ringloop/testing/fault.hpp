// fault: what can go wrong at one numbered step of a simulated run, and the plan that says where.
//
// A step is the moment at which the simulated kernel decides one result. Three sequences are
// numbered on their own, from 0, so that a fault in one does not renumber the others:
//     work   completions of operations, cancel requests, immediate and cold verbs
//     enter  hand-overs of queued submissions
//     wait   sleeps of the driver
// A clean run's record of steps is the list of places where faults can be planned. Everything here
// is plain data for tests, for any thread; nothing knows the driver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ringloop::testing {

enum class step_domain : std::uint8_t { work, enter, wait };

enum class step_kind : std::uint8_t {
    nop,
    accept,
    connect,
    receive,
    receive_into,
    send,
    poll,
    open,
    read,
    write,
    statx,
    fsync,
    close,
    rename,
    unlink,
    mkdir,
    link,
    symlink,
    call,
    cancel,    // a cancel request that found its operation undecided
    try_send,  // the verbs
    try_receive,
    try_recvmmsg,  // asked and result: messages
    try_sendmmsg,
    try_pread,
    try_close,
    make_socket,
    bind,
    listen,
    shutdown,
    set_option,
    get_option,
    local_address,
    peer_address,
    enter,
    wait,
};

enum class fault_kind : std::uint8_t {
    none,
    error,          // value: the errno. ECONNRESET and EPIPE break the stream for real
    shorten,        // at most `value` bytes; 0 or less: that many fewer than would have been moved
    end_of_stream,  // 0 bytes although there are some; they stay where they are
    late,           // done now, reported `value` nanoseconds later
    slow,           // not begun before `value` nanoseconds have passed
    reorder,        // reported after everything else of its batch
    end_multishot,  // a good result, but the last one of its multishot operation
    starve,         // the pool seems empty: -ENOBUFS
    cancel_wins,    // at a cancel: ends an operation that is being carried out already
    limit,      // at an enter: at most `value` submissions are taken (value < 0: all but -value)
    interrupt,  // at a wait: a signal
    spurious,   // at a wait: returns with nothing
    jump,       // at a wait: the clock jumps `value` nanoseconds ahead
};

struct fault {
    fault_kind kind = fault_kind::none;
    std::int64_t value = 0;
    bool operator==(const fault&) const = default;
};

// What a clean run did at one step.
struct step_record {
    step_domain domain = step_domain::work;
    step_kind kind = step_kind::nop;
    bool multishot = false;
    bool running = false;  // at a cancel: the operation had begun
    int fd = -1;
    std::int64_t asked = 0;  // bytes, or submissions at an enter
    std::int64_t result = 0;
    std::int64_t time_ns = 0;
    fault injected;
};

struct planned_fault {
    step_domain domain = step_domain::work;
    std::uint64_t index = 0;
    fault what;
};

// Every fault that makes sense at such a step.
[[nodiscard]] std::vector<fault> applicable_faults(const step_record& step);
// A correct program shows its user nothing of it: the work is done all the same.
[[nodiscard]] bool harmless(const step_record& step, const fault& what) noexcept;

[[nodiscard]] std::string_view name(step_domain) noexcept;
[[nodiscard]] std::string_view name(step_kind) noexcept;
[[nodiscard]] std::string_view name(fault_kind) noexcept;
// "work:17:error:104", and back. parse_fault() throws std::invalid_argument on anything else.
[[nodiscard]] std::string to_text(const planned_fault&);
[[nodiscard]] planned_fault parse_fault(const std::string& text);
[[nodiscard]] std::string to_text(const step_record&);

}  // namespace ringloop::testing
