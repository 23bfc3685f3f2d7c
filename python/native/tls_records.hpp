// Where TLS records end in a stream of bytes: enough to know how many whole ones have come, and
// that a stream was cut inside one. Nothing is decrypted or checked here.
// Thread: any, one at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace ringloop::python {

class record_meter {
  public:
    // The bytes behind those of the call before.
    void show(std::span<const std::byte> data) noexcept {
        while (!data.empty()) {
            if (rest_ == 0) {
                const std::size_t taken = std::min(data.size(), header_.size() - header_size_);
                std::copy_n(data.data(), taken, header_.data() + header_size_);
                header_size_ += taken;
                data = data.subspan(taken);
                if (header_size_ < header_.size()) return;
                body_ = size_in_header();
                rest_ = body_;
                if (rest_ == 0) end_record();
                continue;
            }
            const std::size_t taken = std::min(data.size(), rest_);
            rest_ -= taken;
            data = data.subspan(taken);
            if (rest_ == 0) end_record();
        }
    }

    // Bytes of the record that has begun and not ended; 0: the stream is between two.
    [[nodiscard]] std::size_t unfinished() const noexcept {
        return rest_ > 0 ? header_.size() + body_ - rest_ : header_size_;
    }

    // Whether a reader would find something: whole records that were not counted off yet, or the
    // beginning of what is none.
    [[nodiscard]] bool ready() const noexcept { return whole_ > 0 || !plausible(); }
    // The reader got something out of one record, or out of several at once.
    void count_off() noexcept { whole_ -= whole_ > 0 ? 1 : 0; }
    // The reader has found nothing any more.
    void count_off_all() noexcept { whole_ = 0; }

  private:
    void end_record() noexcept {
        header_size_ = 0;
        ++whole_;
    }

    // Whether the record that has begun is one that TLS allows: its reader waits for the whole of
    // it. (The largest body is that of TLS 1.2, 16 KiB and 2 KiB more.)
    [[nodiscard]] bool plausible() const noexcept {
        if (header_size_ < header_.size()) return true;
        const auto type = std::to_integer<unsigned>(header_[0]);
        return type >= 20 && type <= 24 && std::to_integer<unsigned>(header_[1]) == 3 &&
               body_ <= 16384 + 2048;
    }

    [[nodiscard]] std::size_t size_in_header() const noexcept {
        return std::to_integer<std::size_t>(header_[3]) << 8 |
               std::to_integer<std::size_t>(header_[4]);
    }

    std::array<std::byte, 5> header_{};  // type, version (2), size of what follows (2)
    std::size_t header_size_ = 0;        // 0: between two records
    std::size_t body_ = 0;               // of the record whose header is complete
    std::size_t rest_ = 0;               // of its body, still to come
    std::size_t whole_ = 0;              // records, still to be counted off
};

}  // namespace ringloop::python
