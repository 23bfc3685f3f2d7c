"""Runs a program on a poorer machine: io_uring denied, little lockable memory, few descriptors, a
plain user.

    launch.py [--deny-uring EPERM|ENOSYS] [--deny-register EPERM|ENOSYS] [--memlock-kib N]
              [--descriptors N] [--user] -- PROGRAM ARGS…

Limits first, then the user, then the seccomp filter (which needs no privilege), then exec. The
filter answers with an error number as containers' profiles do; it never kills.
"""
from __future__ import annotations

import argparse
import ctypes
import errno
import os
import resource
import sys

NOBODY = 65534
IO_URING_SETUP, IO_URING_ENTER, IO_URING_REGISTER = 425, 426, 427   # the same on every machine

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2
_BPF_LOAD_WORD, _BPF_JUMP_EQUAL, _BPF_RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jump_true", ctypes.c_uint8),
                ("jump_false", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction))]


def deny(numbers: dict[int, int]) -> None:
    """From now on, and in every child: system call `number` fails with `error`."""
    code = [(_BPF_LOAD_WORD, 0, 0, 0)]                      # the system call's number
    for number, error in numbers.items():
        code += [(_BPF_JUMP_EQUAL, 0, 1, number), (_BPF_RETURN, 0, 0, _ERRNO | error)]
    code.append((_BPF_RETURN, 0, 0, _ALLOW))
    instructions = (_Instruction * len(code))(*[_Instruction(*each) for each in code])
    program = _Program(len(code), instructions)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 or \
            libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp is not available")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    for option in ("--deny-uring", "--deny-register"):
        parser.add_argument(option, choices=("EPERM", "ENOSYS"))
    parser.add_argument("--memlock-kib", type=int)
    parser.add_argument("--descriptors", type=int)
    parser.add_argument("--user", action="store_true", help="become nobody")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    if options.memlock_kib is not None:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (options.memlock_kib * 1024,) * 2)
    if options.descriptors is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.descriptors,) * 2)
    if options.user and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    denied = {}
    if options.deny_uring:
        number = getattr(errno, options.deny_uring)
        denied = {IO_URING_SETUP: number, IO_URING_ENTER: number, IO_URING_REGISTER: number}
    elif options.deny_register:
        denied = {IO_URING_REGISTER: getattr(errno, options.deny_register)}
    if denied:
        deny(denied)
    os.execvp(options.command[0], options.command)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"launch.py: {error}")
