// exit_guard: lets daemon threads that run a loop end with the interpreter.
//
// CPython before 3.14 ends a thread that asks for the GIL while the interpreter finalizes by
// pthread_exit(), which unwinds the stack; the first noexcept frame of ours on it would call
// std::terminate() and take the process down. The guard chains a terminate handler that puts such a
// thread to sleep for good instead, as CPython 3.14 does itself; every other call goes on to the
// handler that was there. Any thread; the GIL is not held when it acts.
#pragma once

namespace ringloop::python {

void install_exit_guard() noexcept;

}  // namespace ringloop::python
