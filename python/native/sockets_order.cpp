// The queues of calls on one socket. Contract in sockets_order.hpp. Thread: the loop's, GIL held.
#include "sockets_order.hpp"

#include <Python.h>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <utility>

#include "ringloop/bridge/python/errors.hpp"
#include "ringloop/bridge/python/ref.hpp"

namespace ringloop::python {
namespace {

struct queue {
    socket_place* first;
    socket_place* last;
};
struct queues {
    queue reading;
    queue writing;
};

// By descriptor: a table, so that ten thousand connections cost no search.
queues* table = nullptr;
std::size_t table_size = 0;

bool make_room(std::size_t index) noexcept {
    if (index < table_size) return true;
    const std::size_t wanted = std::max(std::max(index + 1, 2 * table_size), std::size_t{64});
    auto* grown = static_cast<queues*>(std::realloc(table, wanted * sizeof(queues)));
    if (grown == nullptr) return false;
    std::fill(grown + table_size, grown + wanted, queues{});
    table = grown;
    table_size = wanted;
    return true;
}

queue& queue_of(int fd, order which) noexcept {
    queues& both = table[fd];
    return which == order::reading ? both.reading : both.writing;
}

// Of this thread: a callback may let another thread's loop run in between.
thread_local socket_place* due_first = nullptr;
thread_local unsigned put_offs = 0;

}  // namespace

bool socket_place::enter(int fd, order which, owners whose) noexcept {
    assert(now_ == outside && fd >= 0);
    if (which == order::none || !make_room(static_cast<std::size_t>(fd))) return true;
    queue& q = queue_of(fd, which);
    if (q.first != nullptr && q.first->whose_ != whose) q = {};  // that one goes on without
    fd_ = fd;
    which_ = which;
    whose_ = whose;
    previous_ = q.last;
    (q.last != nullptr ? q.last->next_ : q.first) = this;
    q.last = this;
    now_ = previous_ == nullptr ? begun : waiting;
    return now_ == begun;
}

void socket_place::leave() noexcept {
    if (now_ == outside) return;
    if (now_ == due) {
        socket_place** at = &due_first;
        while (*at != nullptr && *at != this) at = &(*at)->next_due_;
        if (*at == this) *at = next_due_;
    }
    stand_in(next_, previous_);
    socket_place* const follower = previous_ == nullptr ? next_ : nullptr;
    forget();
    if (follower == nullptr || follower->now_ != waiting) return;
    const put_off together;
    follower->now_ = due;
    socket_place** at = &due_first;
    while (*at != nullptr) at = &(*at)->next_due_;
    *at = follower;
}

void socket_place::replace(socket_place& other) noexcept {
    assert(now_ == outside && other.now_ != due);
    if (other.now_ == outside) return;
    fd_ = other.fd_;
    which_ = other.which_;
    whose_ = other.whose_;
    previous_ = other.previous_;
    next_ = other.next_;
    now_ = other.now_;
    other.stand_in(this, this);
    other.forget();
}

// For those around this one: what comes behind the previous, and before the next.
void socket_place::stand_in(socket_place* behind, socket_place* before) noexcept {
    queue& q = queue_of(fd_, which_);
    if (previous_ != nullptr) previous_->next_ = behind;
    if (next_ != nullptr) next_->previous_ = before;
    if (q.first == this) q.first = behind;
    if (q.last == this) q.last = before;
}

socket_place* socket_place::first(int fd, order which, owners whose) noexcept {
    if (fd < 0 || static_cast<std::size_t>(fd) >= table_size) return nullptr;
    socket_place* found = queue_of(fd, which).first;
    return found != nullptr && found->whose_ == whose ? found : nullptr;
}

void socket_place::forget() noexcept {
    now_ = outside;
    previous_ = nullptr;
    next_ = nullptr;
    next_due_ = nullptr;
}

void socket_place::forget_all(const bridge::loop_host* host) noexcept {
    for (std::size_t fd = 0; fd < table_size; ++fd) {
        for (queue* q : {&table[fd].reading, &table[fd].writing}) {
            if (q->first == nullptr || (host != nullptr && q->first->whose_.host != host)) continue;
            for (socket_place* each = std::exchange(*q, {}).first; each != nullptr;) {
                socket_place* const next = each->next_;
                each->forget();
                each = next;
            }
        }
    }
    if (host == nullptr) due_first = nullptr;
}

socket_place::put_off::put_off() noexcept {
    ++put_offs;
}

socket_place::put_off::~put_off() {
    if (put_offs > 1 || due_first == nullptr) {
        --put_offs;
        return;
    }
    const bridge::ref pending = bridge::take_exception();  // of whoever let go
    while (due_first != nullptr) {
        socket_place* const each = std::exchange(due_first, due_first->next_due_);
        each->next_due_ = nullptr;
        each->now_ = begun;
        each->go();
    }
    --put_offs;
    if (pending) bridge::restore_exception(bridge::ref::share(pending.get()));
}

}  // namespace ringloop::python
