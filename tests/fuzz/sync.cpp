// Targets: what coroutines share (channel, broadcast, locks), by actors who are stopped at any
// moment; and trees of groups, limits and failures.
#include <array>
#include <set>

#include "ringloop/sync/broadcast.hpp"
#include "ringloop/sync/channel.hpp"
#include "ringloop/sync/mutex.hpp"
#include "ringloop/sync/semaphore.hpp"
#include "simulated.hpp"

namespace fuzz {
namespace {

// ---- channel: what was sent is received, once; nothing else is. (Who was given a value may run
// after one who took a later one without waiting: the order is not to be seen here.)

struct channel_world {
    explicit channel_world(bytes data) : in(data), values(in.below(4)) {}
    choices in;
    rl::channel<unsigned> values;
    std::array<actor, 5> actors;
    std::set<unsigned> sent;
    std::set<unsigned> received;

    void take(std::optional<unsigned> value) {
        if (!value) return;
        must(received.insert(*value).second, "no value comes twice");
    }
};

task<void> send_one(channel_world& w, unsigned value) {
    co_await w.values.send(value);
    w.sent.insert(value);
}

task<void> receive_one(channel_world& w) {
    w.take(co_await w.values.receive());
}

task<void> act(channel_world& w, unsigned self) {
    for (unsigned n = 1; !w.in.empty() && !w.values.is_closed(); ++n) {
        const unsigned value = n * 5 + self;
        switch (w.in.below(5)) {
            case 0:
                try {
                    static_cast<void>(co_await w.actors[self].ends(send_one(w, value)));
                } catch (const rl::channel_closed&) {
                    must(w.values.is_closed(), "only a closed channel says so");
                }
                break;
            case 1:
                static_cast<void>(co_await w.actors[self].ends(receive_one(w)));
                break;
            case 2: {
                unsigned tried = value;
                if (w.values.try_send(std::move(tried))) w.sent.insert(value);
                break;
            }
            case 3:
                w.take(w.values.try_receive());
                break;
            default:
                co_await rl::yield();
        }
    }
}

template <class World>
task<void> meddle(World& w) {
    while (!w.in.empty()) {
        const std::size_t what = w.in.below(16);
        if (what < w.actors.size()) w.actors[what].stop();
        co_await rl::yield();
    }
}

task<void> through_channel(channel_world& w) {
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (unsigned i = 0; i < w.actors.size(); ++i) group.spawn(act(w, i));
        co_await meddle(w);
        must(w.values.size() <= w.values.capacity(), "a channel holds what it has room for");
        w.values.close();
    });
    for (std::size_t n = w.values.size(); n != 0; --n) w.take(w.values.try_receive());
    must(!w.values.try_receive(), "a closed channel is empty at last");
    must(w.received == w.sent, "what was sent is received, nothing else is");
}
const registered channel("channel", [](bytes data) {
    channel_world w(data);
    simulate(through_channel(w));
});

// ---- broadcast: each subscriber sees, or is told of, everything since it subscribed

struct broadcast_world {
    explicit broadcast_world(bytes data) : in(data), news(1 + in.below(4)) {}
    choices in;
    rl::broadcast<std::uint64_t> news;
    std::array<actor, 4> actors;
    std::uint64_t sent = 0;
};

task<void> hear(rl::broadcast<std::uint64_t>::subscription& from, std::uint64_t& next, bool& over) {
    try {
        const auto value = co_await from.receive();
        if (!value) {
            over = true;
        } else {
            must(*value == next++, "values come in order, none is left out in silence");
        }
    } catch (const rl::broadcast_lagged& late) {
        next += late.missed();
    }
}

task<void> listen(broadcast_world& w, unsigned self) {
    auto from = w.news.subscribe();
    std::uint64_t next = w.sent;
    for (bool over = false; !over;) {
        static_cast<void>(co_await w.actors[self].ends(hear(from, next, over)));
        if (w.in.below(2) != 0) co_await rl::yield();
    }
    must(next == w.sent, "nothing is missing at the end");
}

task<void> broadcasting(broadcast_world& w) {
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (unsigned i = 0; i < w.actors.size(); ++i) group.spawn(listen(w, i));
        while (!w.in.empty()) {
            const std::size_t what = w.in.below(12);
            if (what < w.actors.size())
                w.actors[what].stop();
            else if (what < 10)
                w.news.send(w.sent++);
            else
                co_await rl::yield();
        }
        w.news.close();
    });
}
const registered broadcast("broadcast", [](bytes data) {
    broadcast_world w(data);
    simulate(broadcasting(w));
});

// ---- locks: never more inside than may be, and everything is free at the end

struct lock_world {
    explicit lock_world(bytes data) : in(data), total(1 + in.below(4)), permits(total) {}
    choices in;
    const std::size_t total;
    rl::semaphore permits;
    rl::shared_mutex lock;
    std::array<actor, 6> actors;
    std::size_t held = 0;
    std::size_t readers = 0;
    std::size_t writers = 0;

    void look() const {
        must(held + permits.available() <= total, "no permit is made");
        must(writers == 0 || (writers == 1 && readers == 0), "a writer is alone");
    }
};

task<void> hold_permits(lock_world& w, std::size_t count) {
    const auto permit = co_await w.permits.acquire(count);
    w.held += count;
    for (std::size_t n = w.in.below(3); n != 0; --n)
        co_await rl::shield(
            rl::with_group([](rl::task_group&) -> task<void> { co_await rl::yield(); }));
    w.look();
    w.held -= count;
}

task<void> hold_lock(lock_world& w, bool alone) {
    rl::shared_mutex::guard guard;
    if (alone) {
        guard = co_await w.lock.lock();
    } else {
        guard = co_await w.lock.lock_shared();
    }
    std::size_t& count = alone ? w.writers : w.readers;
    ++count;
    for (std::size_t n = w.in.below(3); n != 0; --n)
        co_await rl::shield(
            rl::with_group([](rl::task_group&) -> task<void> { co_await rl::yield(); }));
    must(w.writers == 0 || (w.writers == 1 && w.readers == 0), "a writer is alone");
    --count;
}

task<void> compete(lock_world& w, unsigned self) {
    while (!w.in.empty()) {
        const std::size_t what = w.in.below(5);
        if (what < 2)
            static_cast<void>(
                co_await w.actors[self].ends(hold_permits(w, 1 + w.in.below(w.total))));
        else if (what < 4)
            static_cast<void>(co_await w.actors[self].ends(hold_lock(w, what == 2)));
        else
            co_await rl::yield();
    }
}

task<void> locking(lock_world& w) {
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (unsigned i = 0; i < w.actors.size(); ++i) group.spawn(compete(w, i));
        co_await meddle(w);
    });
    must(w.permits.available() == w.total && !w.lock.is_locked(), "everything is given back");
}
const registered locks("locks", [](bytes data) {
    lock_world w(data);
    simulate(locking(w));
});

// ---- a tree of groups, limits, races and failures: each branch that began has ended

struct planned_failure : std::exception {};

struct tree {
    explicit tree(bytes data) : in(data) {}
    choices in;
    int alive = 0;
};

struct life {
    explicit life(tree& of) : t(of) { ++t.alive; }
    ~life() { --t.alive; }
    life(const life&) = delete;
    life& operator=(const life&) = delete;
    tree& t;
};

task<void> grow(tree& t, int depth);

task<void> grow_group(tree& t, int depth) {
    co_await rl::with_group([&](rl::task_group& group) -> task<void> {
        for (std::size_t n = t.in.below(4); n != 0; --n)
            group.spawn(grow(t, depth - 1),
                        t.in.below(4) == 0 ? rl::on_error::log : rl::on_error::cancel_group);
        co_await grow(t, depth - 1);
        if (t.in.below(4) == 0) group.cancel();
    });
}

task<void> grow(tree& t, int depth) {
    const life here(t);
    const auto time = std::chrono::nanoseconds(t.in.byte() * 1000);
    switch (depth > 0 ? t.in.below(7) : 5 + t.in.below(3)) {
        case 0:
        case 1:
            co_await grow_group(t, depth);
            break;
        case 2:
            try {
                co_await rl::with_timeout(time, grow(t, depth - 1));
            } catch (const rl::timed_out&) {
                co_return;
            }
            break;
        case 3:
            co_await rl::shield(grow(t, depth - 1));
            break;
        case 4:
            static_cast<void>(co_await rl::when_any(grow(t, depth - 1), grow(t, depth - 1)));
            break;
        case 5:
            co_await rl::sleep_for(time);
            break;
        case 6:
            co_await rl::yield();
            break;
        default:
            throw planned_failure();
    }
}

const registered stop_tree("stop_tree", [](bytes data) {
    rl::set_error_log([](std::exception_ptr) noexcept {});
    tree t(data);
    try {
        simulate(grow(t, 4));
    } catch (const planned_failure&) {
        must(t.alive == 0, "a failure leaves no branch behind");
    }
    must(t.alive == 0, "no branch is left behind");
});

}  // namespace
}  // namespace fuzz
