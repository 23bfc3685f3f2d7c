"""Accounts: what this process holds, so that a test can be asked to leave nothing behind.

Descriptors by name, threads by name (the kernel's own io_uring workers are not ours to count), and
the native ledger: live loops, operations in flight, leased buffers, handles, timers, awaitables,
transports. The difference over a test must be empty, not small.
"""
from __future__ import annotations

import collections
import dataclasses
import gc
import os
import sys
import time
import warnings
from pathlib import Path

# Threads that live as long as the process by design: the compute pool (started once, kept).
PERMANENT_THREADS = ("rl-kernel", "rl-worker")
KERNEL_THREADS = ("iou-wrk-", "iou-sqp-")
SETTLE_S = 5.0


@dataclasses.dataclass(frozen=True)
class Account:
    descriptors: collections.Counter[str]
    threads: collections.Counter[str]
    native: dict[str, int]


def descriptors() -> collections.Counter[str]:
    """Open descriptors as "number name". Socket and pipe names carry their inode."""
    found: collections.Counter[str] = collections.Counter()
    for number in os.listdir("/proc/self/fd"):
        try:
            found[f"{number} {os.readlink(f'/proc/self/fd/{number}')}"] += 1
        except FileNotFoundError:
            pass                       # the descriptor of this very listing
    return found


def threads() -> collections.Counter[str]:
    found: collections.Counter[str] = collections.Counter()
    for task in Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if not name.startswith(KERNEL_THREADS + PERMANENT_THREADS):
            found[name] += 1
    return found


def native() -> dict[str, int]:
    module = sys.modules.get("ringloop._native")
    return dict(module.ledger()) if module is not None else {}


def take() -> Account:
    return Account(descriptors(), threads(), native())


def difference(before: Account, after: Account) -> list[str]:
    """Sentences, one for each thing left behind (or, in the native ledger, given back twice)."""
    found = [f"descriptor {name} is still open" for name in after.descriptors - before.descriptors]
    found += [f"{count} more thread(s) named {name}"
              for name, count in (after.threads - before.threads).items()]
    for name, count in after.native.items():
        change = count - before.native.get(name, 0)
        if change != 0:
            found.append(f"native ledger: {name} changed by {change:+d}")
    return found


def settled_difference(before: Account) -> list[str]:
    """The difference once threads that were told to end have ended; at most SETTLE_S later."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        gc.collect()
        left = difference(before, take())
        if not left or time.monotonic() > deadline:
            return left
        # tidy-allow: banned because the kernel tells nobody that a thread has left /proc
        time.sleep(0.01)


def settle(*, collect: bool = True) -> None:
    """Collects garbage, and empties the interpreter's cache of methods: a call by a name in C puts
    a new string into it each time, until its 4,096 places are taken."""
    if collect:
        gc.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name in ("_clear_type_cache", "_clear_internal_caches"):
            clear = getattr(sys, name, None)
            if clear is not None:
                clear()


def allocated_blocks(*, collect: bool = True) -> int:
    settle(collect=collect)
    return sys.getallocatedblocks()


def assert_flat(counts: list[int], rounds: int) -> None:
    """Fails if each batch of `rounds` left a block a round: the first two batches fill the caches
    of the interpreter and its libraries, which go on to drift by some tens of blocks."""
    growth = [after - before for before, after in zip(counts[2:], counts[3:])]
    assert min(growth) < rounds / 2, counts
