// stream_read: one read of a native StreamReader as the work behind an Awaitable; and stream_link,
// which joins a SocketTransport to its reader.
//
// The stock attributes stay the truth (`_buffer`, `_eof`, `_exception`, `_waiter`, `_paused`,
// `_limit`), so stock methods and native ones mix freely. A read that has to wait puts its link
// into `reader._waiter`: feed_eof(), set_exception() and a stock feed_data() wake it as they would
// wake a Future. Bytes are consumed only when the read ends; a read that is cancelled in between
// gives them back, and only then does the next one look at the buffer. Thread: the loop's, GIL
// held.
#pragma once

#include <Python.h>

#include <cstddef>

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/bridge/python/ref.hpp"
#include "stream_object.hpp"

namespace ringloop::python {

class stream_read;

struct stream_link {
    PyObject_HEAD PyObject* reader;  // weak reference to the StreamReader
    stream_read* parked;             // the read that waits, or null
    // The read whose bytes have not been taken yet, or null: it may still give them back, so that
    // the one behind it waits, whatever the buffer has.
    stream_read* holder;
};

extern PyTypeObject* stream_link_type;
[[nodiscard]] stream_link* make_stream_link(PyObject* reader_reference) noexcept;
int add_stream_link_type() noexcept;

enum class read_kind : std::uint8_t { some, exactly, until, line };

class stream_read final : public bridge::source {
  public:
    // `separator` is bytes, not empty; null for the kinds without one.
    stream_read(PyObject* reader, stream_link* link, read_kind kind, Py_ssize_t count,
                PyObject* separator) noexcept;
    ~stream_read() override;

    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override;
    void request_cancel() noexcept override;
    void collect() noexcept override;
    [[nodiscard]] PyObject* result() noexcept override;
    int traverse(visitproc visit, void* arg) noexcept override {
        Py_VISIT(reader_.get());
        Py_VISIT(error_.get());
        return 0;
    }
    void undelivered(PyObject* value) noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "stream read"; }

    // Data arrived while parked and the reader's buffer is empty: how much of it was taken. If the
    // read has ended, nothing of it may be touched afterwards.
    [[nodiscard]] std::size_t offer(const stream_object& reader, const char* data,
                                    std::size_t size) noexcept;
    // The buffer, the end or the exception changed: ends, or goes on waiting.
    void look_again() noexcept;
    // Ends with `exception`.
    void fail(PyObject* exception) noexcept;

  private:
    // Looks at the bytes in hand: true once `value_` or `error_` is set; `taken` leave the front.
    [[nodiscard]] bool evaluate(const stream_object& reader, const char* data, std::size_t size,
                                bool ended, std::size_t& taken) noexcept;
    [[nodiscard]] bool find_separator(const stream_object& reader, const char* data,
                                      std::size_t size, bool ended, std::size_t& taken) noexcept;
    void overrun(const char* message, const char* data, std::size_t size, std::size_t consumed,
                 std::size_t& taken) noexcept;
    void incomplete(const char* data, std::size_t size, std::size_t& taken) noexcept;
    [[nodiscard]] bool evaluate_buffer(const stream_object& reader) noexcept;
    [[nodiscard]] bool park(const stream_object& reader) noexcept;
    void unpark(const stream_object& reader) noexcept;
    // What it took while parked is its own once its task has it.
    void end(const stream_object& reader) noexcept;
    void keep_error() noexcept { error_ = bridge::take_exception(); }

    bridge::ref reader_;
    bridge::ref link_;
    bridge::ref separator_;
    bridge::ref value_;
    bridge::ref error_;
    bridge::awaitable* owner_ = nullptr;
    std::size_t count_;
    std::size_t scanned_ = 0;  // no separator starts before this offset
    read_kind kind_;
};

// Attributes of a reader: new reference, null with an exception set.
[[nodiscard]] bridge::ref reader_buffer(const stream_object& reader) noexcept;  // exact bytearray
[[nodiscard]] Py_ssize_t reader_limit(const stream_object& reader) noexcept;    // -1 with an error
// Appends to a bytearray: 0 or -1.
int append_to(PyObject* buffer, const char* data, std::size_t size) noexcept;

struct stream_names {
    PyObject* _buffer;
    PyObject* _client_connected_cb;
    PyObject* _eof;
    PyObject* _exception;
    PyObject* _limit;
    PyObject* _loop;
    PyObject* _maybe_resume_transport;
    PyObject* _paused;
    PyObject* _protocol;
    PyObject* _reader;
    PyObject* _stream_reader_wr;
    PyObject* _transport;
    PyObject* _waiter;
    PyObject* _wakeup_waiter;
    PyObject* resume_reading;
    PyObject* write;
    PyObject* incomplete_read_error;
    PyObject* limit_overrun_error;
};
[[nodiscard]] stream_names& stream_name() noexcept;
int load_stream_names() noexcept;

}  // namespace ringloop::python
