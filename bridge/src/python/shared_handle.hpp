// shared_handle: what is behind ringloop.SharedHandle: the consumer of one handle's records, the
// awaits of its tokens, and what it has in flight on its loop: a poll of the eventfd, and one of a
// pidfd for each producer that is another process.
//
// Life: it is counted, by its Python object, its capsules, its awaits and its polls; the memory and
// the descriptors go with the last of them, since a producer's thread may be in the middle of
// completing whenever. It binds its loop at the first submit(). It is closed once: by close(), or
// by the end of its loop.
//
// Thread: the loop's, GIL held, except close() and the counting: any with the GIL.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>

#include "ringloop/bridge/core/handle_consumer.hpp"
#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/host.hpp"

namespace ringloop::bridge {

class completion_source;

// How a token's await ends, other than by its record.
enum class token_end : std::uint8_t { waiting, record, lost, closed, failed, other_loop };

class shared_handle {
  public:
    // Maps the memory; takes over both descriptors, also on failure. Null with an exception set.
    [[nodiscard]] static shared_handle* make(int memory_fd, int wake_fd, unsigned lanes,
                                             unsigned slots) noexcept;
    void retain() noexcept { ++owners_; }
    void release() noexcept {
        if (--owners_ == 0) delete this;
    }

    // (token, awaitable), or null with an exception set.
    [[nodiscard]] PyObject* submit(unsigned lane) noexcept;
    // Ends awaits of that lane when the process ends, which may not have attached yet. 0, or -1
    // with an exception set.
    [[nodiscard]] int watch(unsigned lane, long pid) noexcept;
    // Its awaits raise ConnectionAbortedError; producers are refused from here on.
    void close() noexcept;
    [[nodiscard]] bool closed() const noexcept { return closed_; }

    [[nodiscard]] const ringloop_handle& view() const noexcept { return view_; }
    [[nodiscard]] handle_consumer& consumer() noexcept { return *consumer_; }
    [[nodiscard]] std::uint64_t wakes() const noexcept { return wakes_; }
    [[nodiscard]] bool forked() const noexcept;  // it is a copy of the parent's

    static void close_descriptor(int fd) noexcept;

    // ---- for its sources
    [[nodiscard]] loop_host* host() noexcept { return host_; }
    void bound(loop_host& to) noexcept { host_ = &to; }
    // The eventfd was written to, or there is more to do.
    void turn() noexcept;
    // Nothing of it is in flight on its loop any more. `error`: an errno, or 0.
    void ended(token_end how, int error = 0) noexcept;
    void process_ended(unsigned lane, std::uint32_t pid) noexcept;
    void watch_over(unsigned lane, const awaitable& watch) noexcept;

  private:
    struct producer {
        std::uint64_t owner = 0;      // as the lane last said
        ref watch;                    // the awaitable of its process's end
        std::uint32_t asked_pid = 0;  // the process that watch() named
        ref asked;                    // the awaitable of that one's end
        bool gone = false;            // there was one, and no other is expected
    };
    shared_handle() noexcept = default;
    ~shared_handle();
    [[nodiscard]] bool usable() noexcept;
    [[nodiscard]] bool may_submit(unsigned lane) noexcept;
    void look_at_owners() noexcept;
    void end_lane(unsigned lane, std::uint32_t pid) noexcept;
    [[nodiscard]] int begin_watch(unsigned lane, std::uint32_t pid, ref& watch) noexcept;
    void report_unwatched(unsigned lane, std::uint32_t pid) noexcept;

    ringloop_handle view_ = {};
    int memory_fd_ = -1;
    void* memory_ = nullptr;
    std::unique_ptr<handle_consumer> consumer_;
    std::unique_ptr<producer[]> producers_;
    loop_host* host_ = nullptr;
    std::uint64_t wakes_ = 0;
    long owners_ = 1;
    unsigned forks_ = 0;
    bool closed_ = false;
    bool loop_ended_ = false;
};

}  // namespace ringloop::bridge
