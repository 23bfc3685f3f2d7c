// operation_source: an await whose work is operations on the loop's ring, one at a time.
//
// A subclass prepares `op`, calls submit() last, and gets completed() for each completion; there it
// may submit again, or end by owner().finish(). After either, nothing of *this may be touched: what
// completes at once may already have ended and freed it.
//
// Thread: the loop's, GIL held.
#pragma once

#include "ringloop/bridge/python/awaitable.hpp"
#include "ringloop/operation.hpp"

namespace ringloop::bridge {

class operation_source : public source {
  public:
    operation_source() noexcept : op(&operation_source::deliver, this) {}

    void request_cancel() noexcept override {
        cancelling = true;
        if (!op.in_flight()) return;
        io().cancel(op);
        host().submitted();
    }
    void collect() noexcept override {
        cancelling = true;
        io().retire(op);
    }

  protected:
    struct owned_operation : operation {
        owned_operation(handler function, operation_source* owned_by) noexcept
            : operation(function, true), self(owned_by) {}
        operation_source* self;
    };

    void bind(loop_host& host, awaitable& owner) noexcept {
        host_ = &host;
        owner_ = &owner;
    }
    [[nodiscard]] loop_host& host() noexcept { return *host_; }
    [[nodiscard]] awaitable& owner() noexcept { return *owner_; }
    [[nodiscard]] driver& io() noexcept { return host_->native().io(); }
    void submit() noexcept {
        loop_host& to = *host_;
        to.native().io().submit(op);
        to.submitted();
    }
    virtual void completed(const completion& result) noexcept = 0;

    owned_operation op;
    bool cancelling = false;  // asked to end: submit nothing more

  private:
    static void deliver(operation& done, const completion& result) noexcept {
        static_cast<owned_operation&>(done).self->completed(result);
    }
    loop_host* host_ = nullptr;
    awaitable* owner_ = nullptr;
};

}  // namespace ringloop::bridge
