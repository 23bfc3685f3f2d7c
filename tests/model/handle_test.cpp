// The shared handle in every interleaving: handle.h and handle_consumer.hpp as they are, with the
// compiler's atomic builtins and the eventfd's write replaced by the explorer's.
#include <array>
#include <catch2/catch.hpp>
#include <memory>
#include <vector>

// All that handle.h and handle_consumer.hpp include, before the names below change.
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>
#include <utility>

#include "model/explorer.hpp"

namespace {

unsigned* eventfd = nullptr;

ssize_t signal_loop() {
    ++*eventfd;
    return 8;
}

model::order order_of(int how) {
    static constexpr std::array orders{model::order::relaxed, model::order::acquire,
                                       model::order::acquire, model::order::release,
                                       model::order::acq_rel, model::order::seq_cst};
    return orders[static_cast<std::size_t>(how)];
}

template <class T>
T load_n(const T* place, int how) {
    return static_cast<T>(model::load(place, *place, order_of(how)));
}
template <class T, class V>
void store_n(T* place, V value, int how) {
    model::store(place, *place, static_cast<T>(value), order_of(how));
}
template <class T, class Change>
T change_n(T* place, int how, Change make) {
    return static_cast<T>(model::modify(place, *place, order_of(how), false,
                                        [&](std::uint64_t old, std::uint64_t& made) {
                                            made = make(static_cast<T>(old));
                                            return true;
                                        }));
}
template <class T, class V>
T exchange_n(T* place, V value, int how) {
    return change_n(place, how, [&](T) { return static_cast<T>(value); });
}
template <class T, class V>
T or_n(T* place, V value, int how) {
    return change_n(place, how, [&](T old) { return static_cast<T>(old | value); });
}
template <class T, class V>
T add_n(T* place, V value, int how) {
    return change_n(place, how, [&](T old) { return static_cast<T>(old + value); });
}
template <class T, class V>
bool compare_n(T* place, T* expected, V value, int how) {
    const T wanted = *expected;
    *expected = static_cast<T>(model::modify(place, *place, order_of(how), false,
                                             [&](std::uint64_t old, std::uint64_t& made) {
                                                 made = static_cast<T>(value);
                                                 return static_cast<T>(old) == wanted;
                                             }));
    return *expected == wanted;
}

}  // namespace

#define __atomic_load_n(place, how) load_n(place, how)
#define __atomic_store_n(place, value, how) store_n(place, value, how)
#define __atomic_exchange_n(place, value, how) exchange_n(place, value, how)
#define __atomic_fetch_or(place, value, how) or_n(place, value, how)
#define __atomic_fetch_add(place, value, how) add_n(place, value, how)
#define __atomic_compare_exchange_n(place, expected, value, weak, how, otherwise) \
    compare_n(place, expected, value, how)
#define write(fd, data, size) (static_cast<void>(data), signal_loop())
#include "ringloop/bridge/core/handle_consumer.hpp"
#include "ringloop/handle.h"
#undef write

namespace {

struct memory {
    static constexpr std::uint32_t lanes = 2, slots = 2;
    memory() {
        words.resize(ringloop_handle_memory_size(lanes, slots) / 8 + 1);
        ringloop_handle_place(&view, words.data(), lanes, slots);
        view.lane = -1;
        view.alive_fd = -1;
        consumer = std::make_unique<ringloop::bridge::handle_consumer>(view);
    }
    std::vector<std::uint64_t> words;
    ringloop_handle view{};
    std::unique_ptr<ringloop::bridge::handle_consumer> consumer;
    std::array<ringloop_token, 2> tokens{};
    std::array<int, 2> owners{};  // counts what reached each
    unsigned eventfd = 0;

    void complete(std::size_t number) {
        ::eventfd = &eventfd;
        model::check(ringloop_handle_complete_int(&view, tokens[number],
                                                  static_cast<std::int64_t>(number)) == 0,
                     "a completion was refused");
    }
    void serve() {
        int left = 2;
        const auto deliver = [&](void* owner, const ringloop_record& record) {
            std::int64_t value = -1;
            std::memcpy(&value, record.data, sizeof value);
            model::check(owner == &owners[static_cast<std::size_t>(value)], "to a wrong owner");
            ++*static_cast<int*>(owner);
            --left;
        };
        for (;;) {
            static_cast<void>(consumer->drain(deliver));
            if (left == 0) return;
            if (!consumer->announce_sleep()) continue;
            model::wait_until([this] { return eventfd != 0; });
            eventfd = 0;
            consumer->end_sleep();
        }
    }
};

template <unsigned other_lane>
model::program completions() {
    auto all = std::make_shared<memory>();
    return {.threads = {[all] {
                            for (unsigned i = 0; i < 2; ++i) {
                                static_cast<void>(all->consumer->reserve(
                                    i * other_lane, &all->owners[i], all->tokens[i]));
                            }
                            all->serve();
                        },
                        [all] {
                            model::wait_until([all] { return all->tokens[1] != 0; });
                            all->complete(0);
                        },
                        [all] {
                            model::wait_until([all] { return all->tokens[1] != 0; });
                            all->complete(1);
                        }},
            .at_end = [all] {
                for (const int count : all->owners)
                    model::check(count == 1, "an owner was not told once");
            }};
}

}  // namespace

TEST_CASE("completions of one lane, and of two, reach each owner once, and no wake-up is lost") {
    for (const auto make : {&completions<0>, &completions<1>}) {
        const model::outcome all = model::explore(make, {.preemptions_max = 2, .stale_max = 1});
        INFO("after " << all.runs << " runs");
        CHECK(all.failure == "");
        CHECK(all.complete);
        CHECK(all.runs > 1000);
    }
}

TEST_CASE("the model sees a handle whose accesses are not sequentially consistent") {
    for (const auto make : {&completions<0>, &completions<1>}) {
        const model::outcome all = model::explore(
            make,
            {.preemptions_max = 2, .stale_max = 1, .seeded = model::fault::seq_cst_is_acq_rel});
        CHECK(all.failure == "every thread is blocked: a wake-up was lost");
    }
}
