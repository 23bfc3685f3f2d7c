// Lookups on shared threads.
//
// A lookup cannot be stopped, and may take half a minute. So its request is an object of its own:
// who waits for it may leave, and then the worker frees it. `mutex_` decides who was first.
#include "ringloop/net/resolve.hpp"

#include <netdb.h>

#include <algorithm>
#include <cerrno>
#include <coroutine>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "ringloop/detail/operation_await.hpp"
#include "ringloop/error.hpp"
#include "ringloop/stop.hpp"
#include "ringloop/thread_pool.hpp"

namespace ringloop::net {
namespace {

constexpr unsigned threads_max = 4;

// Never destroyed: at the end of the process a lookup may still hang.
thread_pool& workers() {
    static auto* const pool = new thread_pool(threads_max);
    return *pool;
}

struct answer {
    int code = 0;
    int error_number = 0;  // with EAI_SYSTEM
    std::vector<endpoint> addresses;
};

answer look_up(const std::string& host, std::uint16_t port) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = AI_ADDRCONFIG;
    addrinfo* list = nullptr;
    answer found;
    found.code = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
    found.error_number = errno;
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
        if (each->ai_family != AF_INET && each->ai_family != AF_INET6) continue;
        const endpoint at(each->ai_addr, each->ai_addrlen);
        if (std::find(found.addresses.begin(), found.addresses.end(), at) == found.addresses.end())
            found.addresses.push_back(at);
    }
    if (found.code == 0 && found.addresses.empty()) found.code = EAI_NONAME;
    return found;
}

class lookup : private stop_waiter {
    struct request : thread_pool::item, posted {
        request(lookup& its_owner, std::string name, std::uint16_t at_port)
            : item(&lookup::on_worker),
              posted(&lookup::on_return),
              owner(&its_owner),
              host(std::move(name)),
              port(at_port) {}
        std::mutex mutex;
        lookup* owner;  // null: nobody waits any more
        bool finished = false;
        const std::string host;
        const std::uint16_t port;
        answer found;
    };

  public:
    lookup(std::string host, std::uint16_t port)
        : stop_waiter(&lookup::ask_to_stop),
          request_(std::make_unique<request>(*this, std::move(host), port)) {}

    [[nodiscard]] bool await_ready() const noexcept { return false; }
    template <class Promise>
    bool await_suspend(std::coroutine_handle<Promise> handle) {
        stop_scope* scope = ringloop::detail::scope_of(handle);
        stopped_ = scope != nullptr && scope->stop_requested();
        if (stopped_) return false;
        home_ = &ringloop::detail::running_scheduler();
        waiting_ = handle;
        home_->note_wait(scope);
        workers().submit(*request_);
        request_.release();  // the worker's and ours; the last of both frees it
        home_->hold();
        if (scope != nullptr) scope->add(*this);
        return true;
    }
    answer await_resume() {
        if (stopped_) throw operation_cancelled();
        return std::move(found_);
    }

  private:
    static void on_worker(thread_pool::item& work) noexcept {
        auto& self = static_cast<request&>(work);
        try {
            self.found = look_up(self.host, self.port);
        } catch (const std::bad_alloc&) {
            self.found = {};
            self.found.code = EAI_MEMORY;
        }
        std::unique_lock lock(self.mutex);
        if (self.owner == nullptr) {
            lock.unlock();
            delete &self;
            return;
        }
        self.finished = true;
        // Under the lock: the scheduler lives as long as somebody waits.
        self.owner->home_->post(self);
    }
    static void on_return(posted& node) noexcept {
        const std::unique_ptr<request> self(&static_cast<request&>(node));
        { const std::lock_guard wait_for_the_worker(self->mutex); }
        lookup& owner = *self->owner;
        owner.unlink();
        owner.found_ = std::move(self->found);
        owner.home_->release();
        owner.home_->schedule(owner.waiting_);
    }
    static void ask_to_stop(stop_waiter& waiter) noexcept {
        auto& self = static_cast<lookup&>(waiter);
        {
            const std::lock_guard lock(self.running_->mutex);
            if (self.running_->finished) return;  // it is on its way, and faster
            self.running_->owner = nullptr;
        }
        self.stopped_ = true;
        self.home_->release();
        self.home_->schedule(self.waiting_);
    }

    std::unique_ptr<request> request_;
    request* running_ = request_.get();
    scheduler* home_ = nullptr;
    std::coroutine_handle<> waiting_;
    answer found_;
    bool stopped_ = false;
};

std::optional<endpoint> numeric(const std::string& host, std::uint16_t port) {
    try {
        return endpoint(host, port);
    } catch (const std::invalid_argument&) {
        return std::nullopt;
    }
}

}  // namespace

resolve_error::resolve_error(const std::string& host, int code)
    : std::runtime_error("ringloop: cannot look up '" + host + "': " + gai_strerror(code)),
      code_(code) {}

task<std::vector<endpoint>> resolve(std::string host, std::uint16_t port) {
    if (const auto at = numeric(host, port)) co_return std::vector<endpoint>{*at};
    if (host.empty() || host.find('\0') != std::string::npos) throw resolve_error(host, EAI_NONAME);
    answer found = co_await lookup(host, port);
    if (found.code == EAI_SYSTEM) ringloop::detail::throw_error(found.error_number, "look up");
    if (found.code != 0) throw resolve_error(host, found.code);
    co_return std::move(found.addresses);
}

}  // namespace ringloop::net
