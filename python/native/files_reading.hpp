// reading_work: what reads of a file share, whatever memory they fill: waiting for a stream, reads
// that stop short, the file's position, and the bytes of a stream that a cancelled read puts back.
// Thread: the loop's, GIL held.
#pragma once

#include <span>

#include "files.hpp"

namespace ringloop::python {

class reading_work : public file_work {
  public:
    void undelivered(PyObject* value) noexcept final;

  protected:
    // `offset` -1: at the file's position, which begin() looks up.
    reading_work(file_object* on, std::int64_t offset) noexcept
        : file_work(on, offset < 0), at_(offset) {
        takes_back = sequential;
    }

    // Where the next bytes go. Empty: there was no memory, and *this has ended.
    [[nodiscard]] virtual std::span<char> room() noexcept = 0;
    // Whether the read is complete, now that `got` of `asked` bytes were added to done_.
    [[nodiscard]] virtual bool complete(std::size_t asked, std::size_t got) noexcept = 0;
    // The first of the done_ bytes; `value` is what result() returned, or null.
    [[nodiscard]] virtual const char* taken(PyObject* value) noexcept = 0;

    // Reads on: in place where the page cache is likely to answer, else by an operation.
    void advance() noexcept;
    // Moves up to `max` bytes that a cancelled read of a stream left to `to`; returns how many.
    std::size_t take_kept(char* to, std::size_t max) noexcept;
    // For a read that stopped short: the file has no more (else only that much was cached).
    [[nodiscard]] bool at_end() noexcept;

    std::size_t done_ = 0;
    std::int64_t at_;

  private:
    void proceed(long result) noexcept final;
    void settle() noexcept final;
    [[nodiscard]] bool took(std::size_t asked, std::size_t got) noexcept {
        done_ += got;
        return got == 0 || complete(asked, got);
    }
    bool polling_ = false;
};

}  // namespace ringloop::python
