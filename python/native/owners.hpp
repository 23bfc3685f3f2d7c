// Who holds a descriptor: asked of the loops, servers, sock_* calls and files themselves when
// somebody wants to know (ringloop.fdinfo()), so that no connection pays for a register.
//
// Of a loop that runs in another thread only what changes with the GIL held is read.
// GIL held; any thread.
#pragma once

#include <Python.h>

#include <cstddef>
#include <vector>

#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

struct loop_object;

// What a walk has found. Python code may run when objects are made, and change what is walked: that
// comes afterwards.
class owner_list {
  public:
    explicit owner_list(int only_fd) noexcept : only_fd_(only_fd) {}  // -1: of all descriptors
    [[nodiscard]] bool wants(int fd) const noexcept {
        return fd >= 0 && (only_fd_ < 0 || fd == only_fd_);
    }
    // The places of a table by descriptor, of that size, to look at.
    struct range {
        std::size_t first;
        std::size_t end;
    };
    [[nodiscard]] range of(std::size_t size) const noexcept {
        if (only_fd_ < 0) return {0, size};
        const auto fd = static_cast<std::size_t>(only_fd_);
        return {fd, fd < size ? fd + 1 : fd};
    }
    // kind, state: literals. `loop` may be null: of none. What is being freed is passed over.
    void add(int fd, const char* kind, PyObject* holder, PyObject* loop,
             const char* state) noexcept;
    // list of (fd, kind, holder, loop, state); null with an exception set.
    [[nodiscard]] PyObject* objects() const noexcept;

  private:
    struct entry {
        int fd;
        const char* kind;
        bridge::ref holder;
        bridge::ref loop;
        const char* state;
    };
    const int only_fd_;
    bool complete_ = true;
    std::vector<entry> entries_;
};

// ---- what is asked, each beside what it looks at
void list_listeners(owner_list& found) noexcept;  // server.cpp
void list_files(owner_list& found) noexcept;      // files.cpp
// sockets.hpp: socket_work::list_owners()

// Sets FdConflictError, which names both: `holder` has `fd` (an int or what has a fileno()),
// `wanted_by` asks. Returns -1.
int raise_conflict(PyObject* fd, const char* kind, PyObject* holder,
                   const char* wanted_by) noexcept;
// 0, or -1 with FdConflictError set: a transport of another loop has `fd`. For callers who name a
// descriptor; costs nothing while there is one loop.
[[nodiscard]] int check_other_loops(loop_object* loop, int fd, const char* wanted_by) noexcept;

int add_owner_functions(PyObject* module) noexcept;

}  // namespace ringloop::python
