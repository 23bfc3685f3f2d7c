// explorer: runs a small program of two or three threads in every order, and with every value that
// the memory model lets a load return, within bounds of both.
//
// The threads are coroutines of one real thread (ucontext): each access to a model atomic is a
// point at which another may go on. A run is repeated from the start for each sequence of choices
// (depth first); the program is made anew by its factory each time.
//
// Memory: each location has the history of its stores. A thread has a view: the oldest store of
// each location that it may still read. A load may return any store from there on; what it returns,
// and an acquire of a release store the whole view of who stored it, is then in the view. A
// read-modify-write reads the newest store, and hands on the view of the store that it replaces.
// Sequentially consistent accesses read no store older than the newest such store or
// read-modify-write of their location. That is C++20's model without reads of stores yet to come
// and with stores of one location in the order in which they were run.
//
// A failure is a thread's false check(), a race on a `plain`, or all threads blocked. Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace model {

// Faults that a test seeds into every access, to show that it can fail.
enum class fault : std::uint8_t {
    none,
    release_is_relaxed,
    acquire_is_relaxed,
    seq_cst_is_acq_rel,
    idle_rmw_is_load,  // fetch_or(0) reads as a load does
};

struct program {
    std::vector<std::function<void()>> threads;
    std::function<void()> at_end;  // after all have returned: last checks
};

struct outcome {
    std::string failure;            // empty: none
    std::vector<unsigned> choices;  // that led to it
    std::uint64_t runs = 0;
    bool complete = true;  // false: `runs_max` was reached
};

struct options {
    unsigned preemptions_max = 3;
    unsigned stale_max = 3;  // loads of one run that return another than the newest store
    std::uint64_t runs_max = 2'000'000;
    fault seeded = fault::none;
};

[[nodiscard]] outcome explore(const std::function<program()>& make, const options& how = {});

// ---- for what runs inside
void check(bool holds, const char* what);
// Blocks the thread until it holds. It looks at nothing that is a model atomic.
void wait_until(const std::function<bool()>& ready);

enum class order : std::uint8_t { relaxed, acquire, release, acq_rel, seq_cst };
[[nodiscard]] std::uint64_t load(const void* place, std::uint64_t initial, order how);
void store(const void* place, std::uint64_t initial, std::uint64_t value, order how);
// Stores change(old), unless it says no by returning false. Returns old.
std::uint64_t modify(const void* place, std::uint64_t initial, order how, bool idle,
                     const std::function<bool(std::uint64_t old, std::uint64_t& made)>& change);

// Memory that is no atomic: two accesses, one of them a write, must be ordered by others.
template <class T>
class plain {
  public:
    explicit plain(T value = {}) : value_(value) {}
    void write(T value) {
        touch_write();
        value_ = value;
    }
    [[nodiscard]] T read() const {
        touch_read();
        return value_;
    }

  private:
    void touch_write() const;
    void touch_read() const;
    T value_;
};
namespace detail {
void plain_access(const void* place, bool writes);
}
template <class T>
void plain<T>::touch_write() const {
    detail::plain_access(this, true);
}
template <class T>
void plain<T>::touch_read() const {
    detail::plain_access(this, false);
}

}  // namespace model
