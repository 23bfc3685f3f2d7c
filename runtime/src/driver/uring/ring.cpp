// ring: set-up, probe and tear-down. See the header.
#include "driver/uring/ring.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

#include "driver/kernel_driver.hpp"
#include "ringloop/kernel_abi.hpp"

namespace ringloop::uring {
namespace {

namespace abi = kernel_abi;

struct used_opcode {
    unsigned number;
    const char* name;
};
constexpr used_opcode used[] = {
    {abi::op_nop, "NOP"},
    {abi::op_fsync, "FSYNC"},
    {abi::op_readv, "READV"},
    {abi::op_writev, "WRITEV"},
    {abi::op_read_fixed, "READ_FIXED"},
    {abi::op_write_fixed, "WRITE_FIXED"},
    {abi::op_poll_add, "POLL_ADD"},
    {abi::op_sendmsg, "SENDMSG"},
    {abi::op_accept, "ACCEPT"},
    {abi::op_async_cancel, "ASYNC_CANCEL"},
    {abi::op_connect, "CONNECT"},
    {abi::op_openat, "OPENAT"},
    {abi::op_close, "CLOSE"},
    {abi::op_statx, "STATX"},
    {abi::op_read, "READ"},
    {abi::op_write, "WRITE"},
    {abi::op_send, "SEND"},
    {abi::op_recv, "RECV"},
    {abi::op_renameat, "RENAMEAT"},
    {abi::op_unlinkat, "UNLINKAT"},
    {abi::op_mkdirat, "MKDIRAT"},
    {abi::op_symlinkat, "SYMLINKAT"},
    {abi::op_linkat, "LINKAT"},
};

// What the protocol here relies on beyond the opcodes.
struct needed_feature {
    unsigned bit;
    const char* name;
};
constexpr needed_feature needed[] = {
    {IORING_FEAT_NODROP, "NODROP"},       {IORING_FEAT_EXT_ARG, "EXT_ARG"},
    {IORING_FEAT_FAST_POLL, "FAST_POLL"}, {IORING_FEAT_RW_CUR_POS, "RW_CUR_POS"},
    {IORING_FEAT_CQE_SKIP, "CQE_SKIP"},   {IORING_FEAT_SUBMIT_STABLE, "SUBMIT_STABLE"},
};

std::size_t memlock_limit() noexcept {
    rlimit limit{};
    return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

int disabled_by_sysctl() noexcept {
    int value = 0;
    if (std::FILE* file = std::fopen("/proc/sys/kernel/io_uring_disabled", "re")) {
        if (std::fscanf(file, "%d", &value) != 1) value = 0;
        std::fclose(file);
    }
    return value;
}

std::string likely_cause(int error) {
    switch (error) {
        case ENOSYS:
            return "this kernel has no io_uring, or a seccomp filter hides it; use the epoll "
                   "backend, or a kernel of 6.1 or newer without that filter";
        case EPERM:
        case EACCES:
            if (disabled_by_sysctl() == 2) {
                return "kernel.io_uring_disabled is 2; set it to 0, or use the epoll backend";
            }
            if (disabled_by_sysctl() == 1) {
                return "kernel.io_uring_disabled is 1 and this process is not in "
                       "kernel.io_uring_group; set it to 0, or use the epoll backend";
            }
            return "a seccomp filter forbids it, as default container profiles do; allow io_uring "
                   "there (docker: --security-opt seccomp=<profile>), or use the epoll backend";
        case ENOMEM:
            return "RLIMIT_MEMLOCK is " + std::to_string(memlock_limit() / 1024) +
                   " KiB and the user's rings share it; raise it (ulimit -l), or use the epoll "
                   "backend";
        case EMFILE:
        case ENFILE:
            return "no descriptor is free; raise RLIMIT_NOFILE (ulimit -n)";
        case EINVAL:
            return "this kernel is older than 6.1 in what the ring needs; use the epoll backend";
        default:
            return "unexpected; use the epoll backend";
    }
}

[[noreturn]] void fail(int error, const std::string& call) {
    throw std::system_error(error, std::generic_category(),
                            call + " failed (" + likely_cause(error) + ")");
}

io_uring_params parameters(unsigned completion_entries, bool pinned) noexcept {
    io_uring_params p{};
    p.flags = IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
    p.flags |= pinned ? IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SINGLE_ISSUER
                      : IORING_SETUP_COOP_TASKRUN;
    p.cq_entries = completion_entries;
    return p;
}

// Closed rings give their share of RLIMIT_MEMLOCK back a moment later: one short wait before each
// step down, if there is a limit worth waiting for.
void set_up(const driver_config& config, io_uring& io, unsigned& features) {
    constexpr unsigned submission_min = 8;
    constexpr unsigned completion_min = 16;
    unsigned submissions = std::max(1U, config.submission_entries);
    unsigned completions = std::max(submissions, config.completion_entries);
    const bool worth_waiting = memlock_limit() >= 8192;
    bool waited = !worth_waiting;
    for (;;) {
        io_uring_params p = parameters(completions, config.pinned);
        const int result = ::io_uring_queue_init_params(submissions, &io, &p);
        if (result == 0) {
            features = p.features;
            return;
        }
        if (result != -ENOMEM) fail(-result, "io_uring_setup");
        if (!waited) {
            waited = true;
            const timespec moment{0, 500'000};
            ::nanosleep(&moment, nullptr);
            continue;
        }
        if (submissions <= submission_min && completions <= completion_min) {
            fail(ENOMEM, "io_uring_setup");
        }
        submissions = std::max(submission_min, submissions / 2);
        completions = std::max(completion_min, completions / 2);
        waited = !worth_waiting;
    }
}

void check_features(unsigned features) {
    for (const needed_feature& each : needed) {
        if ((features & each.bit) == 0) {
            fail(EINVAL, std::string("io_uring_setup: feature ") + each.name + " is absent and it");
        }
    }
}

void check_opcodes(io_uring& io, const driver_config& config, std::vector<std::string>& missing) {
    alignas(io_uring_probe)
        std::byte memory[sizeof(io_uring_probe) + abi::op_end * sizeof(io_uring_probe_op)] = {};
    auto* probe = new (memory) io_uring_probe;
    const int result = ::io_uring_register_probe(&io, probe, abi::op_end);
    if (result < 0) fail(-result, "io_uring_register (opcode probe)");
    std::string names;
    for (const used_opcode& each : used) {
        const auto& masked = config.masked_opcodes;
        const bool there = ::io_uring_opcode_supported(probe, static_cast<int>(each.number)) != 0 &&
                           std::find(masked.begin(), masked.end(), each.number) == masked.end();
        if (there) continue;
        missing.emplace_back(each.name);
        names += names.empty() ? each.name : std::string(", ") + each.name;
    }
    if (!names.empty()) fail(EINVAL, "io_uring opcode probe: " + names + " absent: it");
}

// A filter may let the set-up pass and stop the rest.
void check_enter(io_uring& io) {
    ::io_uring_prep_nop(::io_uring_get_sqe(&io));
    int result = ::io_uring_submit(&io);
    if (result < 0) fail(-result, "io_uring_enter");
    io_uring_cqe* cqe = nullptr;
    do {
        result = ::io_uring_wait_cqe(&io, &cqe);
    } while (result == -EINTR);
    if (result < 0) fail(-result, "io_uring_enter");
    if (cqe->res < 0) fail(-cqe->res, "io_uring no-op");
    ::io_uring_cqe_seen(&io, cqe);
}

void provide_buffers(ring& r, const driver_config& config, std::byte* pool) {
    const std::size_t page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    const std::size_t bytes = config.buffer_count * sizeof(io_uring_buf);
    r.buffers_bytes = (bytes + page - 1) / page * page;
    r.buffers = static_cast<io_uring_buf_ring*>(map_memory(r.buffers_bytes, "the buffer ring"));
    io_uring_buf_reg registration{};
    registration.ring_addr = std::bit_cast<std::uintptr_t>(r.buffers);
    registration.ring_entries = config.buffer_count;
    registration.bgid = buffer_group;
    const int result = ::io_uring_register_buf_ring(&r.io, &registration, 0);
    if (result < 0) fail(-result, "io_uring_register (buffer ring)");
    ::io_uring_buf_ring_init(r.buffers);
    r.buffers_mask = config.buffer_count - 1;
    for (unsigned id = 0; id < config.buffer_count; ++id) {
        ::io_uring_buf_ring_add(r.buffers, pool + std::size_t{id} * config.buffer_size,
                                config.buffer_size, static_cast<unsigned short>(id),
                                static_cast<int>(r.buffers_mask), static_cast<int>(id));
    }
    ::io_uring_buf_ring_advance(r.buffers, static_cast<int>(config.buffer_count));
}

}  // namespace

ring open_ring(const driver_config& config, std::byte* pool, capabilities& found,
               std::vector<std::string>& missing) {
    ring r;
    unsigned features = 0;
    set_up(config, r.io, features);
    try {
        check_features(features);
        const int result = ::io_uring_ring_dontfork(&r.io);
        if (result < 0) fail(-result, "madvise (ring, MADV_DONTFORK)");
        check_opcodes(r.io, config, missing);
        check_enter(r.io);
        provide_buffers(r, config, pool);
    } catch (...) {
        close_ring(r);
        throw;
    }
    found.submission_entries = *r.io.sq.kring_entries;
    found.completion_entries = *r.io.cq.kring_entries;
    return r;
}

void close_ring(ring& r) noexcept {
    ::io_uring_queue_exit(&r.io);
    if (r.buffers != nullptr) unmap_memory(r.buffers, r.buffers_bytes);
}

}  // namespace ringloop::uring
