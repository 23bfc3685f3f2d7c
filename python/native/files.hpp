// files: awaitables for files, over the ring of whichever loop runs (ringloop's own or a guest's).
//
// Rules
//  1. NOWAIT first: a read is tried in place (RWF_NOWAIT, page cache only) if no file operation of
//  this loop is in flight, at most `in_place_max` times between two that went to the ring; else it
//  is a ring operation. Data goes straight into the bytes object.
//  2. Operations at the file's position run one after another, in the order they were started;
//  positional ones (pread, pwrite) at any time. close() waits for all of them.
//  3. A cancelled operation loses nothing: the position moves only with what was delivered; what a
//  stream (FIFO, terminal) gave all the same is kept for the next read.
//  4. A stream is polled before it is read or written: no worker ever sleeps in it.
//
// Thread: the loop's, GIL held.
#pragma once

#include <Python.h>

#include <cstdint>

#include "ringloop/bridge/python/operation_source.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {

inline constexpr unsigned in_place_max = 8;
inline constexpr std::size_t in_place_size_max = 64 * 1024;
// One ring operation copies at most this much, so that the turn that submits it stays short.
inline constexpr std::size_t chunk_size = 256 * 1024;
// A pipe that polls writable takes this much without blocking.
inline constexpr std::size_t stream_write_size = 4096;

class file_work;
class close_work;

struct file_object {
    PyObject ob_base;
    PyObject* name;
    PyObject* kept;  // bytes of a stream that a cancelled read left
    PyObject* weak_references;
    int fd;  // -1: closed
    bool readable;
    bool writable;
    bool append;
    bool positional;
    bool closing;
    std::int64_t position;
    unsigned users;      // works started and not ended
    file_work* current;  // the one at the file's position
    file_work* first_waiting;
    file_work* last_waiting;
    close_work* closer;
    file_object* previous;  // of all
    file_object* next;

    [[nodiscard]] PyObject* object() noexcept { return &ob_base; }
};

extern PyTypeObject* file_type;
extern long files_live;  // open ones

// New reference, or null with an exception set and `fd` closed.
[[nodiscard]] PyObject* new_file(int fd, const descriptor_facts& facts, PyObject* name,
                                 int access) noexcept;
enum file_access { access_read = 1, access_write = 2, access_append = 4 };

// For descriptors whose loop may be gone.
void close_descriptor(int fd) noexcept;
extern PyObject* os_close;  // os.close; simulated descriptors need another one

// Work on an open file: waits for its turn, counts itself in, hands on.
class file_work : public bridge::operation_source {
  public:
    file_work(file_object* file, bool sequential) noexcept;
    ~file_work() override;
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override;
    void request_cancel() noexcept override;
    void collect() noexcept override;

  protected:
    virtual void begin() noexcept = 0;               // its turn has come: submit or end()
    virtual void proceed(long result) noexcept = 0;  // its operation has completed
    virtual void settle() noexcept {}                // before end(): moves the file's position
    void end() noexcept;                             // *this is gone afterwards
    void fail(long error) noexcept;                  // end() with that errno
    void submit_counted() noexcept;
    [[nodiscard]] bool may_try_in_place() noexcept;
    [[nodiscard]] bool raise_error() noexcept;  // for result()

    file_object* file;
    const bool sequential;
    int error = 0;

  private:
    void completed(const completion& done) noexcept final;
    [[nodiscard]] bool leave_queue() noexcept;
    bool waiting_ = false;
    file_work* next_ = nullptr;
};

[[nodiscard]] inline bool may_try_in_place(const bridge::loop_host& host) noexcept {
    return host.files_in_flight == 0 && host.files_in_place < in_place_max;
}
// The page cache cannot answer: ask the ring.
[[nodiscard]] bool needs_ring(long result) noexcept;

// Awaitables; null with an exception set.
[[nodiscard]] PyObject* await_read(file_object* file, Py_ssize_t size,
                                   std::int64_t offset) noexcept;
[[nodiscard]] PyObject* await_read_all(file_object* file) noexcept;
[[nodiscard]] PyObject* await_read_into(file_object* file, PyObject* buffer) noexcept;
[[nodiscard]] PyObject* await_write(file_object* file, PyObject* data,
                                    std::int64_t offset) noexcept;
[[nodiscard]] PyObject* await_fsync(file_object* file, bool data_only) noexcept;
[[nodiscard]] PyObject* await_truncate(file_object* file, std::int64_t size) noexcept;
[[nodiscard]] PyObject* await_close(file_object* file) noexcept;

extern PyMethodDef file_functions[];  // open_file, read_bytes, stat: files_paths.cpp
extern PyMethodDef tree_functions[];  // rename, unlink …: files_tree.cpp
extern PyMethodDef call_functions[];  // list_directory, read_link …: files_calls.cpp

}  // namespace ringloop::python
