// close_work: closes a file once everything that was started on it has ended. A cancel does not
// stop it: the await ends with CancelledError, at once where it still waited for others, and the
// file is closed all the same.
#pragma once

#include "files.hpp"

namespace ringloop::python {

class close_work final : public bridge::operation_source {
  public:
    explicit close_work(file_object* file) noexcept;
    ~close_work() override;
    void start(bridge::loop_host& host, bridge::awaitable& owner) noexcept override;
    void request_cancel() noexcept override;
    void collect() noexcept override;
    PyObject* result() noexcept override;
    [[nodiscard]] const char* name() const noexcept override { return "close"; }
    void begin() noexcept;  // nobody uses the file any more

  private:
    void completed(const completion& done) noexcept override;
    file_object* file_;
    bool closes_ = false;  // not closed already
    int fd_ = -1;
    int error_ = 0;
};

}  // namespace ringloop::python
