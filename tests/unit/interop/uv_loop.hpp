// A libuv loop for a test, and the ledger around it.
#pragma once

#include <uv.h>

#include <catch2/catch.hpp>

#include "support/ledger.hpp"

namespace ringloop::testing {

// A loop that must have been left empty.
struct loop {
    loop() { uv_loop_init(&uv); }
    ~loop() { CHECK(uv_loop_close(&uv) == 0); }
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;
    uv_loop_t uv;
};

// libuv's first loop opens a pipe for signals that stays.
struct libuv_has_begun {
    libuv_has_begun() { const loop first; }
};
struct uv_ledger : libuv_has_begun, ledger {};

}  // namespace ringloop::testing
