// watch_table: add_reader and add_writer of one loop.
//
// Level-triggered, as asyncio promises: a one-shot poll that is armed again after each callback
// (the kernel refuses a level-triggered multishot poll). Removing one cancels its poll and collects
// it before it returns, so that a close() right behind it shows the peer its end of file at once.
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include <unordered_map>

#include "handle.hpp"
#include "owners.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "ringloop/operation.hpp"

namespace ringloop::python {

struct fd_watch : operation {
    loop_object* loop = nullptr;
    handle_object* handle = nullptr;  // owned
    PyObject* object = nullptr;       // owned: what was given in the place of a number, or null
    bool writer = false;
    explicit fd_watch(handler on_ready) noexcept : operation(on_ready, true) {}
};

class watch_table {
  public:
    // Watches `fd` (replacing what was there); takes over the reference to `handle`. `object`: a
    // socket or file that `fd` is the number of, kept; null: none. 0, or -1 with an exception set.
    int add(loop_object* loop, int fd, bool writer, handle_object* handle,
            PyObject* object) noexcept;
    // 1: removed, 0: there was none.
    int remove(loop_object* loop, int fd, bool writer) noexcept;
    // The same for what has no number any more: it was closed while it was watched.
    int remove_closed(loop_object* loop, PyObject* object, bool writer) noexcept;
    // Removes all. `retire`: with the driver's help; false in a forked child, which has nothing in
    // flight.
    void clear(loop_object* loop, bool retire) noexcept;
    int traverse(visitproc visit, void* argument) noexcept;
    void list_owners(owner_list& found, PyObject* loop) const noexcept;
    [[nodiscard]] std::size_t size() const noexcept { return watches_.size(); }

  private:
    static void on_ready(operation& op, const completion& result) noexcept;
    static void lose(fd_watch& watch, int error) noexcept;
    static long long key(int fd, bool writer) noexcept { return fd * 2LL + (writer ? 1 : 0); }
    // What a watch held; dropping it may run any code.
    struct contents {
        handle_object* handle = nullptr;  // owned; null: there was no watch
        bridge::ref object;
    };
    // Takes a watch out of the table.
    contents take(loop_object* loop, long long which, bool retire) noexcept;
    static void drop(contents taken) noexcept;
    void erase(loop_object* loop, long long which, bool retire) noexcept;

    std::unordered_map<long long, fd_watch> watches_;
};

// The descriptor number of an int or of an object with fileno(); -1 with an exception set.
[[nodiscard]] int descriptor_of(PyObject* object) noexcept;

// 0, or -1 with FdConflictError set: a transport of the loop owns that descriptor; reads and writes
// of others would take its bytes.
[[nodiscard]] int check_no_transport(loop_object* loop, PyObject* object,
                                     const char* wanted_by) noexcept;

}  // namespace ringloop::python
