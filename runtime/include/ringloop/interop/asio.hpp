// Asio: its operations in our tasks, our tasks in its programs. Needs standalone Asio 1.22 or
// newer, or with RINGLOOP_ASIO_BOOST defined Boost.Asio (Boost 1.78 or newer). libringloop itself
// knows neither.
//
//     auto n = co_await socket.async_read_some(asio::buffer(b), rl::use_task);
//     co_await asio::co_spawn(io, coroutine(), rl::use_task);
//     int answer = co_await rl::interop::spawn(scheduler, work(), asio::use_awaitable);
//     return rl::interop::run(io, serve(io));
//
// Who runs the io_context:
//  - its own thread, or several with strands: operations begin on their executor and results come
//    back to the task's scheduler; two hops between threads for each.
//  - this thread: interop::run(), or an asio_host in a program that calls io.run(). The scheduler
//    is a guest of the io_context, which sleeps for both; no hop.
//  - nobody: I/O objects made with an asio_context's executor. Asio waits on a thread of its own,
//    handlers run on the scheduler.
// That an io_context is never the guest of a ring has a reason: while nobody runs it, a post to it
// (a resolver's, another thread's) does not show in its descriptor.
//
// Thread: each part says which. Macro: one of the two Asios in each source file; both may be in one
// program.
#pragma once

#include "ringloop/interop/detail/asio_context.hpp"   // an executor over a scheduler
#include "ringloop/interop/detail/asio_host.hpp"      // a scheduler in an io_context
#include "ringloop/interop/detail/asio_spawn.hpp"     // tasks as operations of Asio's
#include "ringloop/interop/detail/asio_use_task.hpp"  // operations of Asio's as tasks
