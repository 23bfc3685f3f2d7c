// ringloop: everything a native application includes. A table of contents.
//
// net/tls.hpp is in it where the target ringloop::tls is linked. Each header says which threads may
// use what it declares; where it says nothing else, that is the thread of the scheduler that it was
// made on.
#pragma once

#include "ringloop/actor.hpp"              // messages to an object on one scheduler
#include "ringloop/buffer.hpp"             // bytes on loan from the ring
#include "ringloop/capabilities.hpp"       // which backend, and why
#include "ringloop/driver.hpp"             // the door to the kernel
#include "ringloop/error.hpp"              // what awaits throw
#include "ringloop/fs/aligned_buffer.hpp"  // memory at a multiple
#include "ringloop/fs/blocking.hpp"        // calls on files that block, for offload()
#include "ringloop/fs/direct.hpp"          // O_DIRECT
#include "ringloop/fs/directory.hpp"       // the entries of a directory
#include "ringloop/fs/entry.hpp"           // of a directory: a name and what it is
#include "ringloop/fs/file.hpp"            // open, read_at, write_at, sync, status
#include "ringloop/fs/path.hpp"            // rename, unlink, mkdir, link …
#include "ringloop/fs/registered.hpp"      // memory that the kernel has pinned
#include "ringloop/fs/watch.hpp"           // changes, as they happen
#include "ringloop/fs/whole_file.hpp"      // read_file, write_file, copy_file
#include "ringloop/generator.hpp"          // coroutines that yield
#include "ringloop/graph.hpp"              // work with dependencies, run where something changed
#include "ringloop/inbox.hpp"              // work handed over between threads
#include "ringloop/interval.hpp"           // ticks without drift
#include "ringloop/memory.hpp"             // what native code has from the system
#include "ringloop/net/byte_stream.hpp"    // what TCP and Unix streams share
#include "ringloop/net/datagram.hpp"       // UDP, Unix datagrams
#include "ringloop/net/endpoint.hpp"       // numeric addresses
#include "ringloop/net/ready.hpp"          // poll any descriptor
#include "ringloop/net/received_fd.hpp"    // an open descriptor that came from elsewhere
#include "ringloop/net/resolve.hpp"        // names; a connection to the first that answers
#include "ringloop/net/seqpacket.hpp"      // Unix sockets for messages, with an end
#include "ringloop/net/tcp_listener.hpp"   // bind, accept
#include "ringloop/net/tcp_stream.hpp"     // connect, receive, read_some, write_all
#include "ringloop/net/unix_endpoint.hpp"  // paths and abstract names
#include "ringloop/net/unix_listener.hpp"  // bind, accept
#include "ringloop/net/unix_stream.hpp"    // Unix sockets, descriptors over them
#include "ringloop/offload.hpp"            // a function on another thread
#include "ringloop/on.hpp"                 // a task on another scheduler
#include "ringloop/operation.hpp"          // kernel work in flight
#include "ringloop/process/pipe.hpp"       // byte pipes
#include "ringloop/process/process.hpp"    // child processes
#include "ringloop/process/signal.hpp"     // signals to wait for
#include "ringloop/result.hpp"             // a value or an exception
#include "ringloop/run.hpp"                // the main() of a service
#include "ringloop/scheduler.hpp"          // runs coroutines on one thread
#include "ringloop/scheduler_pool.hpp"     // a scheduler for each processor
#include "ringloop/sleep.hpp"              // sleep_for, sleep_until, yield
#include "ringloop/spawn.hpp"              // a task from another thread
#include "ringloop/stop.hpp"               // how coroutines are stopped
#include "ringloop/sync/broadcast.hpp"     // every subscriber gets every value
#include "ringloop/sync/channel.hpp"       // a bounded queue between coroutines
#include "ringloop/sync/condition.hpp"     // waits for a change, with a mutex let go
#include "ringloop/sync/event.hpp"         // a flag to wait for
#include "ringloop/sync/latch.hpp"         // waits for a count to reach zero
#include "ringloop/sync/mutex.hpp"         // mutex, shared_mutex
#include "ringloop/sync/semaphore.hpp"     // a number of permits
#include "ringloop/sync_wait.hpp"          // a task from a plain function
#include "ringloop/task.hpp"               // coroutines
#include "ringloop/task_group.hpp"         // with_group
#include "ringloop/thread_pool.hpp"        // where offload() runs
#include "ringloop/timer.hpp"              // the wheel of a scheduler's deadlines
#include "ringloop/when.hpp"               // with_stop, with_timeout, shield, when_all, when_any

#ifdef RINGLOOP_TLS
#include "ringloop/net/tls.hpp"  // TLS over any of the streams
#endif
