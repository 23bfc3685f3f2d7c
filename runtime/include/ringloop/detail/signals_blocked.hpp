// signals_blocked: no signal reaches this thread while it lives, nor ever a thread that it starts
// meanwhile, but those that the thread causes itself: a crash is still reported. Signals are for
// the threads that the program made: a handler must not run on a worker of ours, whose system call
// it would interrupt. Thread: the one that makes it. Never throws.
#pragma once

#include <signal.h>

namespace ringloop::detail {

class signals_blocked {
  public:
    signals_blocked() noexcept {
        sigset_t most;
        ::sigfillset(&most);
        for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
            ::sigdelset(&most, own);
        ::pthread_sigmask(SIG_BLOCK, &most, &before_);
    }
    ~signals_blocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
    signals_blocked(const signals_blocked&) = delete;
    signals_blocked& operator=(const signals_blocked&) = delete;

  private:
    sigset_t before_{};
};

}  // namespace ringloop::detail
