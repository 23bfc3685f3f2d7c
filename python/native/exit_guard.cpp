// The terminate handler. Contract in exit_guard.hpp.
#include "exit_guard.hpp"

#include <Python.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <thread>

#include "ringloop/bridge/python/finalizing.hpp"

namespace ringloop::python {
namespace {

std::terminate_handler previous = nullptr;
std::thread::id main_thread;

[[noreturn]] void on_terminate() {
    // A forced unwinding is no exception that could be looked at.
    while (bridge::finalizing() && std::this_thread::get_id() != main_thread &&
           !std::current_exception()) {
        // tidy-allow: banned because this thread must never run again
        std::this_thread::sleep_for(std::chrono::hours(1));
    }
    if (previous != nullptr) previous();
    // tidy-allow: banned because a terminate handler must not return
    std::abort();
}

}  // namespace

void install_exit_guard() noexcept {
    if (previous != nullptr) return;
    main_thread = std::this_thread::get_id();
    previous = std::set_terminate(&on_terminate);
}

}  // namespace ringloop::python
