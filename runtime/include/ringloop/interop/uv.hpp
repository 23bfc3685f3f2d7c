// libuv: its loop as guest of a ring, a scheduler as guest of its loop. Needs libuv 1.44 or newer;
// libringloop itself does not know it.
//
//     rl::interop::uv_guest guest(uv_default_loop());   // in a task: our ring waits for both
//     co_await guest.finished();
//
//     rl::interop::uv_host host(uv_default_loop());     // in a libuv program: uv_run() waits
//     host.spawn(serve());
//     uv_run(uv_default_loop(), UV_RUN_DEFAULT);
//
// A loop is driven by one of them at a time: a second guest or host of it, and a guest inside of
// its own host, are refused with std::logic_error. Thread: the loop's, as libuv demands of
// everything but uv_async_send().
#pragma once

#include "ringloop/interop/detail/uv_guest.hpp"  // a uv_loop_t driven by a scheduler
#include "ringloop/interop/detail/uv_host.hpp"   // a scheduler in a uv_loop_t
