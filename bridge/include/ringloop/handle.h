// The shared handle, a producer's side: completes awaits of a Python event loop from any thread,
// without the GIL, and from another process, without Python.
//
// Compiled with the include path that ringloop.get_include() gives; nothing is linked. Plain C (C99
// with gcc's or clang's builtins); usable from C++.
//
//     token, result = handle.submit()                     # Python: reserves a slot
//     extension.start(handle.capsule, token)
//     value = await result
//
//     #include <Python.h>                                 // C, in this process: before this header
//     #include <ringloop/handle.h>
//     ringloop_handle* handle = ringloop_handle_of(capsule);       // GIL; keep the capsule
//     ringloop_handle_complete_int(handle, token, 42);             // any thread
//
// In another process, which inherited or received the three descriptors of handle.share():
//
//     ringloop_handle handle;
//     if (ringloop_handle_attach(&handle, memory_fd, wake_fd, alive_fd, lane) < 0) …
//     ringloop_handle_complete_int(&handle, token, 42);
//     ringloop_handle_detach(&handle);
//
// A lane is one producer's way to the loop: a process's, or that of one or more threads of the
// loop's own process. Records of one lane arrive in the order in which they were stored. A token
// belongs to the lane that it was submitted to. Its slot was reserved by submit(), so that a
// completion never waits and never fails for want of room.
//
// Functions return 0, or a negated errno. Errors of all that complete:
//   -EPIPE     nobody awaits any more: the handle or its loop was closed, or its process has ended.
//              The end of a process is noticed at the latest with the 64th record of a lane.
//   -EINVAL    the token is not of this handle, or not of this process's lane
//   -ENOBUFS   there were more completions than submits: one token was completed twice
//   other      the wake-up could not be written: the caller's descriptor was closed
// A second completion of a token that finds room is stored, and dropped by the loop.
//
// Rules of the memory, which producers and the loop share. All fields that change are accessed by
// __atomic builtins.
//  1. lane.tail is moved by producers (compare and exchange), lane.head by the loop. Position p is
//     free while tail - head < slots.
//  2. record.sequence is written last: p + 1 makes the record at position p whole. What a producer
//     that died left half written is never looked at.
//  3. A producer writes sequence, then looks at its bit of pending_mask (sets it if it is clear),
//     then at `asleep`; the loop sets `asleep` and then looks at the mask; it clears a word of the
//     mask and then looks at the lanes. All by sequentially consistent accesses, so that one of the
//     two always sees the other.
//  4. Who turns `asleep` from 1 to 0 as a producer writes the eventfd: one write a sleep at most.
//  5. lane.owner is the process that attached, 0: none, below a count of those that did. `version`
//     counts changes of owners; after it was raised, the loop is woken by rule 4.
//  6. The loop believes nothing that it reads here: lengths, tokens and indices are checked against
//     memory of its own.
#ifndef RINGLOOP_HANDLE_H
#define RINGLOOP_HANDLE_H

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGLOOP_HANDLE_MAGIC 0x6c6e6168u /* "hanl" */
#define RINGLOOP_HANDLE_VERSION 1u
#define RINGLOOP_HANDLE_CAPSULE "ringloop.SharedHandle.capsule"
#define RINGLOOP_HANDLE_LANES_MAX 256u
#define RINGLOOP_HANDLE_SLOTS_MAX 65536u /* of a lane; a power of two */
#define RINGLOOP_HANDLE_BYTES_MAX 40u    /* that one completion carries */

/* Names one submit(): generation << 32 | lane << 16 | slot. Never 0. */
typedef uint64_t ringloop_token;

enum ringloop_kind { /* what a record carries: None, int, float or bytes in Python */
                     RINGLOOP_NONE = 0,
                     RINGLOOP_INT = 1,
                     RINGLOOP_DOUBLE = 2,
                     RINGLOOP_BYTES = 3
};

typedef struct ringloop_record {
    uint64_t sequence; /* rule 2 */
    ringloop_token token;
    int32_t error; /* 0, or an errno: the await raises OSError */
    uint16_t kind;
    uint16_t size; /* of data that is used */
    unsigned char data[RINGLOOP_HANDLE_BYTES_MAX];
} ringloop_record;

typedef struct ringloop_lane { /* two cache lines: the producer's and the loop's */
    uint64_t tail;
    uint64_t owner; /* rule 5: count << 32 | process */
    uint64_t reserved_1[6];
    uint64_t head;
    uint64_t reserved_2[7];
} ringloop_lane;

/* The memory begins with it; behind it ringloop_lane[lanes], ringloop_record[lanes][slots] and
 * uint32_t wanted[lanes][slots]: the generation of each slot whose await is still waited for. */
typedef struct ringloop_handle_header {
    uint32_t magic;
    uint32_t abi_version;
    uint32_t lanes;
    uint32_t slots; /* of each lane */
    uint64_t reserved_1[6];
    uint64_t version;
    uint64_t pending_mask[4]; /* a bit for each lane that has records */
    uint32_t asleep;
    uint32_t closed; /* nobody awaits any more */
    uint64_t reserved_2[2];
} ringloop_handle_header;

/* A process's view of a handle; what a capsule points to. Grows at its end only. */
typedef struct ringloop_handle {
    uint32_t magic;
    uint32_t abi_version;
    uint32_t lanes; /* copies of what the header said, once it was checked */
    uint32_t slots;
    int32_t lane; /* the only one that it may use; -1: all, in the loop's own process */
    int32_t wake_fd;
    int32_t alive_fd; /* a pidfd of the loop's process; -1: this is that process */
    uint32_t reserved;
    uint64_t size;  /* bytes of the memory */
    uint64_t owner; /* what ringloop_handle_attach() wrote to the lane */
    ringloop_handle_header* header;
    ringloop_lane* heads;
    ringloop_record* records;
    uint32_t* wanted;
} ringloop_handle;

/* ---- tokens */

static inline uint32_t ringloop_token_slot(ringloop_token token) {
    return (uint32_t)(token & 0xffffu);
}
static inline uint32_t ringloop_token_lane(ringloop_token token) {
    return (uint32_t)((token >> 16) & 0xffffu);
}
static inline uint32_t ringloop_token_generation(ringloop_token token) {
    return (uint32_t)(token >> 32);
}

/* ---- for the functions below, and for the loop's side */

static inline uint64_t ringloop_handle_memory_size(uint32_t lanes, uint32_t slots) {
    const uint64_t all = (uint64_t)lanes * slots;
    return sizeof(ringloop_handle_header) + lanes * sizeof(ringloop_lane) +
           all * (sizeof(ringloop_record) + sizeof(uint32_t));
}

static inline int ringloop_handle_shape_is_valid(uint32_t lanes, uint32_t slots) {
    return lanes >= 1 && lanes <= RINGLOOP_HANDLE_LANES_MAX && slots >= 1 &&
           slots <= RINGLOOP_HANDLE_SLOTS_MAX && (slots & (slots - 1)) == 0;
}

/* Places the parts of a handle of that shape, whose memory is mapped at `memory`. */
static inline void ringloop_handle_place(ringloop_handle* handle, void* memory, uint32_t lanes,
                                         uint32_t slots) {
    const size_t all = (size_t)lanes * slots;
    handle->magic = RINGLOOP_HANDLE_MAGIC;
    handle->abi_version = RINGLOOP_HANDLE_VERSION;
    handle->lanes = lanes;
    handle->slots = slots;
    handle->size = ringloop_handle_memory_size(lanes, slots);
    handle->header = (ringloop_handle_header*)memory;
    handle->heads = (ringloop_lane*)(void*)(handle->header + 1);
    handle->records = (ringloop_record*)(void*)(handle->heads + lanes);
    handle->wanted = (uint32_t*)(void*)(handle->records + all);
}

/* 1: wrote the eventfd, 0: nobody sleeps, or a negated errno. */
static inline int ringloop_handle_wake(const ringloop_handle* handle) {
    const uint64_t one = 1;
    if (__atomic_load_n(&handle->header->asleep, __ATOMIC_SEQ_CST) == 0) return 0;
    if (__atomic_exchange_n(&handle->header->asleep, 0u, __ATOMIC_SEQ_CST) == 0) return 0;
    while (write(handle->wake_fd, &one, sizeof one) < 0) {
        if (errno == EAGAIN) break; /* full, so readable */
        if (errno != EINTR) return -errno;
    }
    return 1;
}

static inline int ringloop_handle_has_token(const ringloop_handle* handle, ringloop_token token) {
    const uint32_t lane = ringloop_token_lane(token);
    return lane < handle->lanes && ringloop_token_slot(token) < handle->slots &&
           (handle->lane < 0 || (uint32_t)handle->lane == lane);
}

/* 1 while somebody may await; 0: the handle or its loop was closed, or its process has ended. Any
 * thread; a system call where the loop is another process's. */
static inline int ringloop_handle_alive(const ringloop_handle* handle) {
    struct pollfd process;
    if (__atomic_load_n(&handle->header->closed, __ATOMIC_ACQUIRE) != 0) return 0;
    if (handle->alive_fd < 0) return 1;
    process.fd = handle->alive_fd;
    process.events = POLLIN;
    process.revents = 0;
    if (poll(&process, 1, 0) <= 0) return 1;
    __atomic_store_n(&handle->header->closed, 1u, __ATOMIC_RELEASE); /* so all others see it */
    return 0;
}

static inline int ringloop_handle_put(ringloop_handle* handle, ringloop_token token, int32_t error,
                                      enum ringloop_kind kind, const void* data, size_t size) {
    ringloop_handle_header* const header = handle->header;
    const uint32_t lane = ringloop_token_lane(token);
    const uint64_t bit = (uint64_t)1 << (lane & 63);
    ringloop_lane* heads;
    ringloop_record* record;
    uint64_t* word;
    uint64_t position;
    int first = 0;
    int woken;
    if (!ringloop_handle_has_token(handle, token)) return -EINVAL;
    if (size > RINGLOOP_HANDLE_BYTES_MAX) return -EMSGSIZE;
    if (__atomic_load_n(&header->closed, __ATOMIC_ACQUIRE) != 0) return -EPIPE;
    heads = handle->heads + lane;
    position = __atomic_load_n(&heads->tail, __ATOMIC_RELAXED);
    do {
        const uint64_t head = __atomic_load_n(&heads->head, __ATOMIC_ACQUIRE);
        if ((int64_t)(position - head) >= (int64_t)handle->slots) return -ENOBUFS;
    } while (!__atomic_compare_exchange_n(&heads->tail, &position, position + 1, 1,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    record = handle->records + (size_t)lane * handle->slots + (position & (handle->slots - 1));
    record->token = token;
    record->error = error;
    record->kind = (uint16_t)kind;
    record->size = (uint16_t)size;
    if (size != 0) memcpy(record->data, data, size);
    (void)__atomic_exchange_n(&record->sequence, position + 1, __ATOMIC_SEQ_CST);
    word = header->pending_mask + (lane >> 6);
    if ((__atomic_load_n(word, __ATOMIC_SEQ_CST) & bit) == 0) {
        first = (__atomic_fetch_or(word, bit, __ATOMIC_SEQ_CST) & bit) == 0;
    }
    woken = ringloop_handle_wake(handle);
    if (woken < 0) return woken;
    if (handle->alive_fd >= 0 && (woken || first || (position & 63) == 63) &&
        !ringloop_handle_alive(handle))
        return -EPIPE;
    return 0;
}

/* ---- completing: any thread, no GIL needed, never blocks. Once for each token. */

/* The await returns None. */
static inline int ringloop_handle_complete(ringloop_handle* handle, ringloop_token token) {
    return ringloop_handle_put(handle, token, 0, RINGLOOP_NONE, NULL, 0);
}
/* … an int. */
static inline int ringloop_handle_complete_int(ringloop_handle* handle, ringloop_token token,
                                               int64_t value) {
    return ringloop_handle_put(handle, token, 0, RINGLOOP_INT, &value, sizeof value);
}
/* … a float. */
static inline int ringloop_handle_complete_double(ringloop_handle* handle, ringloop_token token,
                                                  double value) {
    return ringloop_handle_put(handle, token, 0, RINGLOOP_DOUBLE, &value, sizeof value);
}
/* … bytes, copied here; -EMSGSIZE: more than RINGLOOP_HANDLE_BYTES_MAX. */
static inline int ringloop_handle_complete_bytes(ringloop_handle* handle, ringloop_token token,
                                                 const void* data, size_t size) {
    return ringloop_handle_put(handle, token, 0, RINGLOOP_BYTES, data, size);
}
/* The await raises OSError(error), of the subclass for that errno; -EINVAL: it is not positive. */
static inline int ringloop_handle_fail(ringloop_handle* handle, ringloop_token token, int error) {
    if (error <= 0) return -EINVAL;
    return ringloop_handle_put(handle, token, error, RINGLOOP_NONE, NULL, 0);
}

/* Whether somebody still waits for the token: 0 after a cancel, so that the work may end early.
 * Complete it all the same, or its slot stays reserved. Any thread. */
static inline int ringloop_handle_wanted(const ringloop_handle* handle, ringloop_token token) {
    const uint32_t* wanted = handle->wanted;
    if (!ringloop_handle_has_token(handle, token) || ringloop_token_generation(token) == 0)
        return 0;
    wanted += (size_t)ringloop_token_lane(token) * handle->slots + ringloop_token_slot(token);
    return __atomic_load_n(wanted, __ATOMIC_RELAXED) == ringloop_token_generation(token) &&
           __atomic_load_n(&handle->header->closed, __ATOMIC_ACQUIRE) == 0;
}

/* ---- another process */

static inline void ringloop_handle_tell_version(const ringloop_handle* handle) {
    (void)__atomic_fetch_add(&handle->header->version, 1u, __ATOMIC_SEQ_CST);
    (void)ringloop_handle_wake(handle);
}

/* Whether the memory can neither shrink below us nor be told to: 0, or a negated errno. */
static inline int ringloop_handle_check_memory(int memory_fd, struct stat* facts) {
    const int get_seals = 1034; /* F_GET_SEALS, which needs _GNU_SOURCE */
    const int shrink = 2;       /* F_SEAL_SHRINK */
    const int seals = fcntl(memory_fd, get_seals);
    if (seals < 0) return errno == EINVAL ? -EPERM : -errno;
    if ((seals & shrink) == 0) return -EPERM;
    if (fstat(memory_fd, facts) < 0) return -errno;
    if (facts->st_size < (off_t)sizeof(ringloop_handle_header)) return -EPROTO;
    return 0;
}

static inline int ringloop_handle_take_lane(ringloop_handle* handle) {
    uint64_t* const owner = &handle->heads[handle->lane].owner;
    uint64_t before = __atomic_load_n(owner, __ATOMIC_SEQ_CST);
    handle->owner = ((before >> 32) + 1) << 32 | (uint32_t)getpid();
    if ((before & 0xffffffffu) != 0) return -EBUSY;
    return __atomic_compare_exchange_n(owner, &before, handle->owner, 0, __ATOMIC_SEQ_CST,
                                       __ATOMIC_SEQ_CST)
               ? 0
               : -EBUSY;
}

/* Maps the memory of handle.share() and takes `lane` for this process. The descriptors stay the
 * caller's, and open until ringloop_handle_detach(). Tell nobody of `handle` before it returned 0.
 *   -EPERM     memory_fd is not sealed memory: it could shrink below this process
 *   -EPROTO, -EPROTONOSUPPORT   it is no handle; one of another version of this header
 *   -EINVAL    the handle has no such lane
 *   -EBUSY     another process has that lane, or has died and the loop has yet to notice: again
 *   -EPIPE     the handle was closed or its process has ended */
static inline int ringloop_handle_attach(ringloop_handle* handle, int memory_fd, int wake_fd,
                                         int alive_fd, unsigned lane) {
    struct stat facts;
    ringloop_handle_header* header;
    void* memory;
    uint32_t lanes, slots;
    int error = ringloop_handle_check_memory(memory_fd, &facts);
    memset(handle, 0, sizeof *handle);
    if (error < 0) return error;
    if (alive_fd < 0) return -EBADF;
    memory = mmap(NULL, (size_t)facts.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd, 0);
    if (memory == MAP_FAILED) return -errno;
    header = (ringloop_handle_header*)memory;
    lanes = __atomic_load_n(&header->lanes, __ATOMIC_RELAXED);
    slots = __atomic_load_n(&header->slots, __ATOMIC_RELAXED);
    if (header->magic != RINGLOOP_HANDLE_MAGIC) {
        error = -EPROTO;
    } else if (header->abi_version != RINGLOOP_HANDLE_VERSION) {
        error = -EPROTONOSUPPORT;
    } else if (!ringloop_handle_shape_is_valid(lanes, slots) ||
               ringloop_handle_memory_size(lanes, slots) != (uint64_t)facts.st_size) {
        error = -EPROTO;
    } else if (lane >= lanes) {
        error = -EINVAL;
    } else {
        ringloop_handle_place(handle, memory, lanes, slots);
        handle->lane = (int32_t)lane;
        handle->wake_fd = wake_fd;
        handle->alive_fd = alive_fd;
        handle->reserved = 0;
        error = ringloop_handle_alive(handle) ? ringloop_handle_take_lane(handle) : -EPIPE;
    }
    if (error < 0) {
        (void)munmap(memory, (size_t)facts.st_size);
        return error;
    }
    ringloop_handle_tell_version(handle);
    return 0;
}

/* Gives the lane back; awaits of its tokens that are not completed raise ConnectionResetError. No
 * thread may use `handle` any more. */
static inline void ringloop_handle_detach(ringloop_handle* handle) {
    uint64_t own = handle->owner;
    (void)__atomic_compare_exchange_n(&handle->heads[handle->lane].owner, &own, own >> 32 << 32, 0,
                                      __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    ringloop_handle_tell_version(handle);
    (void)munmap(handle->header, (size_t)handle->size);
    memset(handle, 0, sizeof *handle);
}

/* ---- in the loop's process, where Python.h was included before */

#ifdef Py_PYTHON_H
/* The handle behind handle.capsule: valid while the capsule is referenced, also after
 * handle.close(). Null with an exception set. GIL. */
static inline ringloop_handle* ringloop_handle_of(PyObject* capsule) {
    ringloop_handle* handle =
        (ringloop_handle*)PyCapsule_GetPointer(capsule, RINGLOOP_HANDLE_CAPSULE);
    if (handle == NULL) return NULL;
    if (handle->magic == RINGLOOP_HANDLE_MAGIC && handle->abi_version == RINGLOOP_HANDLE_VERSION)
        return handle;
    PyErr_Format(PyExc_ImportError,
                 "this module was compiled for version %u of ringloop's shared handle, the "
                 "installed one has %u: compile it again",
                 RINGLOOP_HANDLE_VERSION, (unsigned)handle->abi_version);
    return NULL;
}
#endif

#ifdef __cplusplus
}
#endif

#endif
