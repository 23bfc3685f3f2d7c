// uv_claim: that a uv_loop_t has one guest or host, and not two. Thread: any.
#pragma once

#include <uv.h>

#include <mutex>
#include <set>
#include <stdexcept>

#if UV_VERSION_HEX < 0x012c00
#error "ringloop/interop/uv.hpp needs libuv 1.44 or newer (apt-get install libuv1-dev)"
#endif

namespace ringloop::interop::detail {

class uv_claim {
  public:
    explicit uv_claim(const uv_loop_t* loop) : loop_(loop) {
        if (loop == nullptr) throw std::invalid_argument("ringloop: the uv_loop_t is null");
        const std::lock_guard lock(all().mutex);
        if (!all().loops.insert(loop).second)
            throw std::logic_error(
                "ringloop: this uv_loop_t has a uv_guest or a uv_host already, and must not be run "
                "by a second one inside of it");
    }
    ~uv_claim() {
        const std::lock_guard lock(all().mutex);
        all().loops.erase(loop_);
    }
    uv_claim(const uv_claim&) = delete;
    uv_claim& operator=(const uv_claim&) = delete;

  private:
    struct claims {
        std::mutex mutex;
        std::set<const uv_loop_t*> loops;
    };
    static claims& all() {
        static claims known;
        return known;
    }
    const uv_loop_t* loop_;
};

}  // namespace ringloop::interop::detail
