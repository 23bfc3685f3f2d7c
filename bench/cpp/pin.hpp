// Where the threads of a benchmark run.
// Thread: the calling one.
#pragma once

#include <pthread.h>
#include <sched.h>

// On one core, before all that is not of real-time priority where this process may ask for that.
inline void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    const sched_param priority{.sched_priority = 20};
    pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
}
