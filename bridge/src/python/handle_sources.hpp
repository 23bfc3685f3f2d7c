// What a shared handle awaits: a token's completion, its eventfd, the end of a producer's process.
//
// Thread: the loop's, GIL held.
#pragma once

#include <array>
#include <cstdint>

#include "ringloop/bridge/python/operation_source.hpp"
#include "shared_handle.hpp"

namespace ringloop::bridge {

// One token's await. Its completion may come before the await has started: then that is immediate.
// A cancelled await ends at once, since nothing of it is lent to the producer; the slot stays
// reserved until the completion has come, which is dropped.
class completion_source final : public source {
  public:
    explicit completion_source(shared_handle& handle) noexcept : handle_(handle) {
        handle_.retain();
    }
    ~completion_source() override;

    void start(loop_host& host, awaitable& owner) noexcept override;
    void request_cancel() noexcept override;
    void collect() noexcept override { request_cancel(); }
    PyObject* result() noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "shared handle"; }

    void reserved(ringloop_token token) noexcept { token_ = token; }
    // Ends it; nothing of *this may be touched afterwards. `number`: an errno, or the pid.
    void arrived(const ringloop_record& record) noexcept;
    void end(token_end how, std::uint32_t number = 0) noexcept;

  private:
    PyObject* value() const noexcept;

    shared_handle& handle_;
    awaitable* owner_ = nullptr;  // once started
    ringloop_token token_ = 0;
    std::uint32_t number_ = 0;
    std::array<unsigned char, RINGLOOP_HANDLE_BYTES_MAX> data_;
    std::uint16_t kind_ = RINGLOOP_NONE;
    std::uint16_t size_ = 0;
    token_end how_ = token_end::waiting;
};

// Pending for as long as the handle is open on its loop, which by ending it says that it closes.
class wake_source final : public operation_source {
  public:
    explicit wake_source(shared_handle& handle) noexcept : handle_(handle) { handle_.retain(); }
    ~wake_source() override { handle_.release(); }
    void start(loop_host& host, awaitable& owner) noexcept override;
    PyObject* result() noexcept override { return Py_NewRef(Py_None); }
    [[nodiscard]] const char* name() const noexcept override { return "shared handle's wake-ups"; }

  private:
    void completed(const completion& result) noexcept override;
    void wait() noexcept;
    shared_handle& handle_;
};

class process_source final : public operation_source {
  public:
    // Takes over the descriptor.
    process_source(shared_handle& handle, unsigned lane, std::uint32_t pid, int pidfd) noexcept
        : handle_(handle), lane_(lane), pid_(pid), pidfd_(pidfd) {
        handle_.retain();
    }
    ~process_source() override;
    void start(loop_host& host, awaitable& owner) noexcept override;
    PyObject* result() noexcept override { return Py_NewRef(Py_None); }
    [[nodiscard]] const char* name() const noexcept override { return "producer's process"; }

  private:
    void completed(const completion& result) noexcept override;
    shared_handle& handle_;
    unsigned lane_;
    std::uint32_t pid_;
    int pidfd_;
};

}  // namespace ringloop::bridge
