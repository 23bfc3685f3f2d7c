// The explorer: a depth-first walk over choices. See the header for the memory model.
#include "model/explorer.hpp"

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace model {
namespace {

constexpr std::size_t threads_max = 4;
constexpr std::size_t stack_bytes = 128 * 1024;
constexpr std::size_t steps_max = 2000;  // of one run: more never ends

using view = std::vector<std::uint32_t>;  // by location; the first ones count threads' steps

void join(view& into, const view& from) {
    if (into.size() < from.size()) into.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}
[[nodiscard]] std::uint32_t at(const view& of, std::size_t index) {
    return index < of.size() ? of[index] : 0;
}
void set(view& of, std::size_t index, std::uint32_t value) {
    if (of.size() <= index) of.resize(index + 1);
    of[index] = value;
}

struct stored {
    std::uint64_t value;
    view published;  // by a release: what an acquire learns
};
struct location {
    std::size_t index;
    std::vector<stored> history;
    std::uint32_t newest_seq_cst = 0;
};
struct accesses {  // of a plain: each thread's latest, by its count of steps
    std::array<std::uint32_t, threads_max> read{};
    std::array<std::uint32_t, threads_max> written{};
};

struct strand {
    ucontext_t context{};
    std::function<void()> body;
    std::function<bool()> ready;  // set while it is blocked
    view seen;
    bool done = false;
};

struct choice {
    unsigned taken;
    unsigned count;
};

class run;
run* current = nullptr;
// Kept from run to run: to make them anew took most of the time.
std::array<std::array<char, stack_bytes>, threads_max> stacks;

class run {
  public:
    run(program& what, const options& how, std::vector<choice>& path)
        : how_(how), path_(path), strands_(what.threads.size()) {
        for (std::size_t i = 0; i < strands_.size(); ++i) prepare(i, what.threads[i]);
    }

    std::string go(const std::function<void()>& at_end) {
        current = this;
        schedule(false);
        if (running_ != none) swapcontext(&home_, &strands_[running_].context);
        if (failure_.empty()) {
            for (const strand& each : strands_)
                if (!each.done) fail("every thread is blocked: a wake-up was lost");
        }
        running_ = none;
        if (failure_.empty() && at_end) at_end();
        current = nullptr;
        return failure_;
    }

    void fail(const char* what) {
        if (failure_.empty()) failure_ = what;
    }
    [[nodiscard]] bool inside() const { return running_ != none; }

    // Before an access: another may go first.
    void step() {
        if (!inside()) return;
        if (++steps_ > steps_max) fail("a thread never ends");
        yield_to(true);
        strand& self = strands_[running_];
        set(self.seen, running_, at(self.seen, running_) + 1);
    }

    void block(const std::function<bool()>& ready) {
        strands_[running_].ready = ready;
        yield_to(false);
        strands_[running_].ready = nullptr;
    }

    std::uint64_t load(const void* place, std::uint64_t initial, order how) {
        step();
        location& where = find(place, initial);
        const auto newest = static_cast<std::uint32_t>(where.history.size() - 1);
        if (!inside()) return where.history.back().value;
        strand& self = strands_[running_];
        std::uint32_t oldest = at(self.seen, where.index);
        if (how == order::seq_cst) oldest = std::max(oldest, where.newest_seq_cst);
        if (stale_ == how_.stale_max) oldest = newest;
        const std::uint32_t read = newest - choose(newest - oldest + 1);
        if (read != newest) ++stale_;
        learn(self, where, read, how);
        return where.history[read].value;
    }

    void store(const void* place, std::uint64_t initial, std::uint64_t value, order how) {
        step();
        append(find(place, initial), value, how, nullptr);
    }

    std::uint64_t modify(const void* place, std::uint64_t initial, order how,
                         const std::function<bool(std::uint64_t, std::uint64_t&)>& change) {
        step();
        location& where = find(place, initial);
        const auto newest = static_cast<std::uint32_t>(where.history.size() - 1);
        const std::uint64_t old = where.history[newest].value;
        std::uint64_t made = 0;
        const bool changes = change(old, made);
        if (inside()) learn(strands_[running_], where, newest, how);
        if (!changes) return old;
        const view replaced = where.history[newest].published;
        append(where, made, how, &replaced);
        return old;
    }

    void plain_access(const void* place, bool writes) {
        if (!inside()) return;
        accesses& of = plains_[place];
        strand& self = strands_[running_];
        for (std::size_t i = 0; i < strands_.size(); ++i) {
            if (of.written[i] > at(self.seen, i) || (writes && of.read[i] > at(self.seen, i)))
                fail("a race on plain memory");
        }
        // What comes after the latest step is published by the next one.
        (writes ? of.written : of.read)[running_] = at(self.seen, running_) + 1;
    }

    [[nodiscard]] order weakened(order how) const {
        switch (how_.seeded) {
            case fault::release_is_relaxed:
                if (how == order::release) return order::relaxed;
                return how == order::acq_rel ? order::acquire : how;
            case fault::acquire_is_relaxed:
                if (how == order::acquire) return order::relaxed;
                return how == order::acq_rel ? order::release : how;
            case fault::seq_cst_is_acq_rel:
                return how == order::seq_cst ? order::acq_rel : how;
            default:
                return how;
        }
    }
    [[nodiscard]] bool is_seeded(fault which) const { return how_.seeded == which; }

  private:
    static constexpr std::size_t none = SIZE_MAX;

    void prepare(std::size_t number, std::function<void()> body) {
        strand& made = strands_[number];
        made.body = std::move(body);
        getcontext(&made.context);
        made.context.uc_stack.ss_sp = stacks[number].data();
        made.context.uc_stack.ss_size = stack_bytes;
        made.context.uc_link = &home_;
        makecontext(&made.context, &run::enter, 0);
    }
    static void enter() { current->live(); }
    void live() {
        strand& self = strands_[running_];
        self.body();
        self.done = true;
        schedule(false);
        if (running_ != none && failure_.empty()) setcontext(&strands_[running_].context);
    }

    unsigned choose(unsigned count) {
        if (count <= 1 || !failure_.empty()) return 0;
        if (chosen_ == path_.size()) path_.push_back({0, count});
        if (path_[chosen_].count != count) throw std::logic_error("a run is not repeatable");
        return path_[chosen_++].taken;
    }

    // Who goes on. To leave a thread that could go on costs one of the pre-emptions.
    void schedule(bool may_stay) {
        std::array<std::size_t, threads_max> able{};
        unsigned count = 0;
        if (may_stay) able[count++] = running_;
        if (!may_stay || preemptions_ < how_.preemptions_max) {
            for (std::size_t i = 0; i < strands_.size(); ++i) {
                const strand& each = strands_[i];
                if ((may_stay && i == running_) || each.done) continue;
                if (each.ready == nullptr || each.ready()) able[count++] = i;
            }
        }
        if (count == 0) {
            running_ = none;
            return;
        }
        const std::size_t next = able[choose(count)];
        if (may_stay && next != running_) ++preemptions_;
        running_ = next;
    }

    void yield_to(bool may_stay) {
        const std::size_t self = running_;
        if (failure_.empty()) schedule(may_stay);
        if (!failure_.empty() || running_ == none)
            swapcontext(&strands_[self].context, &home_);  // never returns: the run is over
        else if (running_ != self)
            swapcontext(&strands_[self].context, &strands_[running_].context);
    }

    location& find(const void* place, std::uint64_t initial) {
        const auto [found, fresh] = locations_.try_emplace(place);
        if (fresh) {
            found->second.index = threads_max + locations_.size() - 1;
            found->second.history.push_back({initial, {}});
        }
        return found->second;
    }

    static void learn(strand& self, const location& where, std::uint32_t read, order how) {
        set(self.seen, where.index, std::max(at(self.seen, where.index), read));
        if (how == order::acquire || how == order::acq_rel || how == order::seq_cst)
            join(self.seen, where.history[read].published);
    }

    void append(location& where, std::uint64_t value, order how, const view* replaced) {
        const auto position = static_cast<std::uint32_t>(where.history.size());
        view published = replaced != nullptr ? *replaced : view{};
        if (inside()) {
            strand& self = strands_[running_];
            set(self.seen, where.index, position);
            if (how == order::release || how == order::acq_rel || how == order::seq_cst)
                join(published, self.seen);
        }
        if (how == order::seq_cst) where.newest_seq_cst = position;
        where.history.push_back({value, std::move(published)});
    }

    const options& how_;
    std::vector<choice>& path_;
    std::vector<strand> strands_;
    std::map<const void*, location> locations_;
    std::map<const void*, accesses> plains_;
    ucontext_t home_{};
    std::size_t running_ = none;
    std::size_t chosen_ = 0;
    std::size_t steps_ = 0;
    unsigned preemptions_ = 0;
    unsigned stale_ = 0;
    std::string failure_;
};

}  // namespace

outcome explore(const std::function<program()>& make, const options& how) {
    outcome result;
    std::vector<choice> path;
    for (;;) {
        program what = make();
        ++result.runs;
        result.failure = run(what, how, path).go(what.at_end);
        if (!result.failure.empty()) {
            for (const choice& each : path) result.choices.push_back(each.taken);
            return result;
        }
        while (!path.empty() && path.back().taken + 1 == path.back().count) path.pop_back();
        if (path.empty()) return result;
        ++path.back().taken;
        if (result.runs == how.runs_max) {
            result.complete = false;
            return result;
        }
    }
}

void check(bool holds, const char* what) {
    if (!holds) current->fail(what);
}

void wait_until(const std::function<bool()>& ready) {
    if (!ready()) current->block(ready);
}

std::uint64_t load(const void* place, std::uint64_t initial, order how) {
    return current->load(place, initial, current->weakened(how));
}

void store(const void* place, std::uint64_t initial, std::uint64_t value, order how) {
    current->store(place, initial, value, current->weakened(how));
}

std::uint64_t modify(const void* place, std::uint64_t initial, order how, bool idle,
                     const std::function<bool(std::uint64_t, std::uint64_t&)>& change) {
    if (idle && current->is_seeded(fault::idle_rmw_is_load)) return load(place, initial, how);
    return current->modify(place, initial, current->weakened(how), change);
}

void detail::plain_access(const void* place, bool writes) {
    current->plain_access(place, writes);
}

}  // namespace model
