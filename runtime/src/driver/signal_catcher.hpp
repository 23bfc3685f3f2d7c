// signal_catcher: catches signals for one owner, by a handler and an eventfd.
//
// A handler and not a signalfd: that one needs the signal blocked in every thread of the program,
// also in those that a library does not know of. The handler counts and writes to the eventfd, so
// no signal is lost, however many come; of several kinds that wait, the first of the list goes
// first. While it lives it has its signals alone in this process; its end puts the dispositions
// back that it found, where its handler still stands, and waits for handlers on other threads to
// return.
//
// Thread: one, but for the handler. Errors: std::logic_error for a signal that has a catcher
// already, std::invalid_argument for one that cannot be caught and gone on from, ringloop::error.
#pragma once

#include <csignal>
#include <span>
#include <vector>

namespace ringloop::detail {

class signal_catcher {
  public:
    explicit signal_catcher(std::span<const int> numbers);
    ~signal_catcher();
    signal_catcher(const signal_catcher&) = delete;
    signal_catcher& operator=(const signal_catcher&) = delete;

    // The number of a signal that came, each one once; 0: none waits, and the descriptor becomes
    // readable when one comes.
    [[nodiscard]] int take() noexcept;
    [[nodiscard]] int descriptor() const noexcept { return eventfd_; }

  private:
    struct caught {
        int number;
        struct sigaction before;
    };
    void claim(int number);
    void release() noexcept;
    [[nodiscard]] int counted() noexcept;
    std::vector<caught> caught_;
    int eventfd_;
};

}  // namespace ringloop::detail
