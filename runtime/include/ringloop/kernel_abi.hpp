// kernel_abi: what the drivers rely on in the kernel's io_uring interface, by number, so that old
// headers build and tests can name an opcode without the ring's headers. runtime/src/driver/uring
// checks each number and layout against the headers at compile time. Constants: any thread.
#pragma once

namespace ringloop::kernel_abi {

// Opcodes that the uring body submits.
inline constexpr unsigned op_nop = 0;
inline constexpr unsigned op_readv = 1;
inline constexpr unsigned op_writev = 2;
inline constexpr unsigned op_fsync = 3;
inline constexpr unsigned op_read_fixed = 4;
inline constexpr unsigned op_write_fixed = 5;
inline constexpr unsigned op_poll_add = 6;
inline constexpr unsigned op_sendmsg = 9;
inline constexpr unsigned op_accept = 13;
inline constexpr unsigned op_async_cancel = 14;
inline constexpr unsigned op_connect = 16;
inline constexpr unsigned op_openat = 18;
inline constexpr unsigned op_close = 19;
inline constexpr unsigned op_statx = 21;
inline constexpr unsigned op_read = 22;
inline constexpr unsigned op_write = 23;
inline constexpr unsigned op_send = 26;
inline constexpr unsigned op_recv = 27;
inline constexpr unsigned op_renameat = 35;
inline constexpr unsigned op_unlinkat = 36;
inline constexpr unsigned op_mkdirat = 37;
inline constexpr unsigned op_symlinkat = 38;
inline constexpr unsigned op_linkat = 39;

// The last opcode of Linux 6.1 (SENDMSG_ZC), the oldest kernel that is supported: a profile of it
// masks everything above.
inline constexpr unsigned op_last_of_6_1 = 48;
inline constexpr unsigned op_end = 128;

}  // namespace ringloop::kernel_abi
