// operation: one piece of work that a driver carries out for its owner.
//
// An operation is an intrusive state machine. It lives in its owner (a coroutine frame, a Python
// transport) and never moves. Nothing is allocated for it.
//
//     idle --submit--> submitted --last completion--> done --(prepare_* again)--> idle
//
// Rules
//  1. From submit() to the last completion the operation, and every byte that its arguments point
//     to, belong to the driver: neither may move or be freed. An owner that loses interest asks the
//     driver to cancel() it and waits for the last completion all the same, or to retire() it.
//  2. A one-shot operation completes exactly once. A multishot one completes any number of times
//     with `more` set and then exactly once without.
//  3. `on_complete` runs on the driver's thread, from driver::dispatch() or driver::retire(), never
//     from submit(), cancel(), flush() or wait(). When it is called for the last completion the
//     state is already `done`, so it may prepare and submit the same operation again, or free its
//     owner.
//  4. `host` operations are delivered by dispatch(phase::host), the others by
//     dispatch(phase::native).
#pragma once

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

struct statx;

namespace ringloop {

class driver;

enum class op_code : std::uint8_t {
    nop,           // completes with 0 at the next turn
    accept,        // result: the new descriptor (non-blocking, close-on-exec)
    connect,       // result: 0
    receive,       // into a buffer of the driver's pool; result: bytes, 0 at the end of the stream
    receive_into,  // into the owner's memory; result: bytes, 0 at the end of the stream
    send,          // gathered; result: bytes sent, possibly fewer than asked
    poll,          // result: the ready events (POLLIN …)
    open,          // result: the new descriptor (close-on-exec)
    read,          // positional, or offset -1 for the file's own position; result: bytes
    write,         // likewise
    statx,         // result: 0
    fsync,         // result: 0
    close,         // result: 0
    rename,        // result: 0, like those that follow
    unlink,        // a file's name, or with AT_REMOVEDIR an empty directory
    mkdir,
    link,
    symlink,
    call,  // a function on a worker, for what the kernel has no operation for; result: its own
};

// May wait for a disk, whatever it is asked of. (A read or a write does only if its descriptor is a
// file's.)
[[nodiscard]] constexpr bool waits_for_disk(op_code code) noexcept {
    switch (code) {
        case op_code::open:
        case op_code::statx:
        case op_code::fsync:
        case op_code::rename:
        case op_code::unlink:
        case op_code::mkdir:
        case op_code::link:
        case op_code::symlink:
        case op_code::call:
            return true;
        default:
            return false;
    }
}

enum class op_state : std::uint8_t { idle, submitted, done };

// Numbers a buffer of the driver's pool.
using buffer_id = std::uint16_t;
inline constexpr buffer_id no_buffer = 0xffff;

struct completion {
    std::int32_t result = 0;       // >= 0, or a negated errno
    bool more = false;             // another completion of the same operation will follow
    buffer_id buffer = no_buffer;  // the receiver gives it back by driver::release_buffer()
};

struct accept_arguments {};
struct connect_arguments {
    const sockaddr* address;
    socklen_t size;
};
struct memory_arguments {  // receive_into, read, write
    void* data;
    std::size_t size;
    std::int64_t
        offset;  // bytes from the start, -1: at the file's position; unused by receive_into
};
struct vector_arguments {  // read, write, where `vectored`
    const iovec* pieces;   // stay alive and unchanged until the completion, like their bytes
    std::size_t count;     // at most IOV_MAX
    std::int64_t offset;
};
struct send_arguments {
    const msghdr*
        message;  // iovec array and its bytes stay alive and unchanged until the completion
    int flags;    // MSG_NOSIGNAL is always added
};
struct poll_arguments {
    std::uint32_t events;  // POLLIN, POLLOUT …
};
struct open_arguments {  // `fd` is the directory (AT_FDCWD)
    const char* path;
    int flags;  // O_CLOEXEC is always added
    mode_t mode;
};
struct statx_arguments {  // `fd` is the directory, or the file with AT_EMPTY_PATH
    const char* path;
    struct statx* result;
    unsigned mask;
    int flags;
};
struct fsync_arguments {
    bool data_only;
};
struct path_arguments {  // unlink, mkdir; `fd` is the directory
    const char* path;
    int flags;
    mode_t mode;
};
struct two_paths_arguments {  // rename, link, symlink; `fd` is the directory of a path to follow
    const char* path;         // symlink: what it shall point to
    const char* new_path;
    int new_directory;
    int flags;
};
struct call_arguments {
    // Never touches its operation, and returns what an operation ends with: not negative, or a
    // negated errno (never EINTR). A cancel drops it before it has begun and else waits for it.
    std::int32_t (*function)(void* context) noexcept;
    void* context;
};

class operation {
  public:
    using handler = void (*)(operation&, const completion&) noexcept;

    operation() noexcept = default;
    explicit operation(handler function, bool for_host = false) noexcept
        : on_complete(function), host(for_host) {}
    operation(const operation&) = delete;
    operation& operator=(const operation&) = delete;
    ~operation();  // asserts that the driver no longer has it (rule 1)

    [[nodiscard]] bool in_flight() const noexcept { return state == op_state::submitted; }

    // prepare_*: fill in the arguments of an operation that is not in flight; nothing happens until
    // driver::submit().
    void prepare_nop() noexcept;
    void prepare_accept(int listener, bool repeat) noexcept;  // repeat: multishot
    void prepare_connect(int socket, const sockaddr* address, socklen_t size) noexcept;
    // repeat: multishot. size_max: of a one-shot receive; 0 is a whole buffer of the pool.
    void prepare_receive(int socket, bool repeat, std::size_t size_max = 0) noexcept;
    void prepare_receive_into(int socket, void* data, std::size_t size) noexcept;
    void prepare_send(int socket, const msghdr* message, int flags = 0) noexcept;
    void prepare_poll(int fd, std::uint32_t events, bool repeat = false) noexcept;
    void prepare_open(int directory, const char* path, int flags, mode_t mode) noexcept;
    void prepare_read(int fd, void* data, std::size_t size, std::int64_t offset) noexcept;
    void prepare_write(int fd, const void* data, std::size_t size, std::int64_t offset) noexcept;
    // Scattered and gathered: filled, or written, in order.
    void prepare_read(int fd, std::span<const iovec> pieces, std::int64_t offset) noexcept;
    void prepare_write(int fd, std::span<const iovec> pieces, std::int64_t offset) noexcept;
    void prepare_statx(int directory, const char* path, int flags, unsigned mask,
                       struct statx* result) noexcept;
    void prepare_fsync(int fd, bool data_only) noexcept;
    void prepare_close(int fd) noexcept;
    void prepare_rename(int directory, const char* path, int new_directory, const char* new_path,
                        int flags = 0) noexcept;
    void prepare_unlink(int directory, const char* path, int flags = 0) noexcept;
    void prepare_mkdir(int directory, const char* path, mode_t mode) noexcept;
    void prepare_link(int directory, const char* path, int new_directory, const char* new_path,
                      int flags = 0) noexcept;
    void prepare_symlink(const char* target, int directory, const char* path) noexcept;
    void prepare_call(std::int32_t (*function)(void* context) noexcept, void* context) noexcept;

    handler on_complete = nullptr;
    union {
        accept_arguments accept;
        connect_arguments connect;
        memory_arguments memory;
        vector_arguments vector;
        send_arguments send;
        poll_arguments poll;
        open_arguments open;
        statx_arguments statx;
        fsync_arguments fsync;
        path_arguments path;
        two_paths_arguments paths;
        call_arguments call;
    } arguments = {};
    int fd = -1;
    op_code code = op_code::nop;
    op_state state = op_state::idle;
    bool multishot = false;
    bool vectored = false;  // of a read or a write
    // Of a read or a write of one piece: the number of the registered memory that it lies in, -1:
    // none. Set between prepare_read() or prepare_write() and submit().
    std::int8_t registered = -1;
    bool host = false;
    bool cancel_requested = false;  // set by driver::cancel() and retire()

    // The driver's own: whether its body has the operation, whether it is being moved to another
    // thread, the list of operations in flight, and one word for the body.
    bool armed = false;
    bool moving = false;
    operation* previous = nullptr;
    operation* next = nullptr;
    std::uint64_t driver_word = 0;

  private:
    void prepare(op_code new_code, int new_fd, bool repeat) noexcept;
};

}  // namespace ringloop
