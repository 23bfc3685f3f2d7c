// listener: a server that accepts as fast as the kernel does, and keeps what it has accepted.
#pragma once

namespace load {

// Prints its port and returns when standard input ends. Nothing is read or sent. Throws on failure.
void listen_and_hold();

}  // namespace load
