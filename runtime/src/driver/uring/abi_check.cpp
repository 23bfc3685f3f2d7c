// abi_check: compile-time proof that kernel_abi.hpp and the ring's headers mean the same, and that
// the layouts that the kernel reads and writes are those that this library was written for.
#include <liburing.h>

#include <cstddef>

#include "ringloop/kernel_abi.hpp"

namespace ringloop::kernel_abi {

static_assert(op_nop == IORING_OP_NOP);
static_assert(op_readv == IORING_OP_READV);
static_assert(op_writev == IORING_OP_WRITEV);
static_assert(op_fsync == IORING_OP_FSYNC);
static_assert(op_read_fixed == IORING_OP_READ_FIXED);
static_assert(op_write_fixed == IORING_OP_WRITE_FIXED);
static_assert(op_poll_add == IORING_OP_POLL_ADD);
static_assert(op_sendmsg == IORING_OP_SENDMSG);
static_assert(op_accept == IORING_OP_ACCEPT);
static_assert(op_async_cancel == IORING_OP_ASYNC_CANCEL);
static_assert(op_connect == IORING_OP_CONNECT);
static_assert(op_openat == IORING_OP_OPENAT);
static_assert(op_close == IORING_OP_CLOSE);
static_assert(op_statx == IORING_OP_STATX);
static_assert(op_read == IORING_OP_READ);
static_assert(op_write == IORING_OP_WRITE);
static_assert(op_send == IORING_OP_SEND);
static_assert(op_recv == IORING_OP_RECV);
static_assert(op_renameat == IORING_OP_RENAMEAT);
static_assert(op_unlinkat == IORING_OP_UNLINKAT);
static_assert(op_mkdirat == IORING_OP_MKDIRAT);
static_assert(op_symlinkat == IORING_OP_SYMLINKAT);
static_assert(op_linkat == IORING_OP_LINKAT);
static_assert(op_last_of_6_1 == IORING_OP_SENDMSG_ZC);

static_assert(sizeof(io_uring_sqe) == 64);
static_assert(offsetof(io_uring_sqe, user_data) == 32);
static_assert(offsetof(io_uring_sqe, buf_group) == 40);
static_assert(sizeof(io_uring_cqe) == 16);
static_assert(sizeof(io_uring_buf) == 16);
static_assert(sizeof(io_uring_buf_reg) == 40);
static_assert(offsetof(io_uring_buf_ring, tail) == 14);
static_assert(sizeof(io_uring_probe_op) == 8);
static_assert(IORING_SETUP_COOP_TASKRUN == 1U << 8 && IORING_SETUP_TASKRUN_FLAG == 1U << 9);
static_assert(IORING_SQ_CQ_OVERFLOW == 2 && IORING_SQ_TASKRUN == 4);

}  // namespace ringloop::kernel_abi
