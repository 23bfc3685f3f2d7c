"""The one direction of dependency, as includes and as symbols, and the one door to the kernel.

    runtime  <-  bridge/core  <-  bridge/python  <-  python/native
                     ^-- kernels  <-  python/native/kernels
"""
from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Collection, Iterator

from tidy.source import Finding, Source

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
_BINDERS = r"pybind11/|nanobind/"
_PYTHON = rf"Python\.h|{_BINDERS}|structmember\.h|frameobject\.h"
_COMPUTE = r"(oneapi/)?tbb/|cblas\.h|jpeglib\.h|turbojpeg\.h"
_ABOVE_CORE = r"ringloop/(bridge/python|kernels)"

# folder: what its files never include
FORBIDDEN_INCLUDES = (
    ("runtime/", rf"{_PYTHON}|ringloop/(bridge|kernels|python)"),
    ("runtime/include/", r"openssl/"),     # runtime/src/net/tls*.cpp alone know it
    # interop/ alone knows them
    ("runtime/", rf"(boost/)?asio|uv\.h|{_COMPUTE}|ringloop/interop"),
    ("bridge/include/ringloop/bridge/core/", f"{_PYTHON}|{_COMPUTE}|{_ABOVE_CORE}"),
    ("bridge/", rf"{_COMPUTE}|ringloop/kernels"),
    ("bridge/src/", _BINDERS),              # the tool is the extension module's choice
    ("bridge/include/ringloop/bridge/", _BINDERS),
    ("kernels/", rf"{_PYTHON}|ringloop/(?!kernels/|bridge/core/)"),
    ("python/native/kernels/", r"ringloop/(?!kernels/|bridge/|py/runtime[.]hpp)|\.\./.*"),
    ("python/native/", rf"{_COMPUTE}|ringloop/kernels"),
)
INTEROP = "runtime/include/ringloop/interop/"


def includes(source: Source) -> Iterator[Finding]:
    if not source.is_cpp:
        return
    for number, line in enumerate(source.lines, 1):
        match = _INCLUDE.match(line)
        if match is None:
            continue
        for folder, forbidden in FORBIDDEN_INCLUDES:
            if not source.path.startswith(folder):
                continue
            if "interop" in forbidden and source.path.startswith(INTEROP):
                continue
            if folder == "python/native/" and source.path.startswith("python/native/kernels/"):
                continue
            if re.match(forbidden, match.group(1)):
                yield from source.finding(number, "layers",
                                          f"{folder} must not include {match.group(1)}")


# ---- one door to the kernel: ring, epoll, descriptors and clocks belong to runtime/src/driver
DOOR = "runtime/src/driver/"
LIBRARY = ("runtime/", "bridge/", "kernels/", "python/native/")
_KERNEL_HEADERS = re.compile(
    r"liburing\.h|linux/io_uring\.h|sys/(epoll|eventfd|timerfd|signalfd|syscall|select)\.h")
_CALLS = re.compile(
    r"(?<![\w.>:])(?:::)?(io_uring_\w+|epoll_\w+|eventfd\w*|syscall|clock_gettime|nanosleep|usleep"
    r"|timerfd_\w+|accept4|recvmmsg|sendmmsg|pread\w*|pwrite\w*|statx|openat2?)\s*\("
    r"|(?<![\w.>:])(?:::)?(fstat|fcntl|ioctl|[gs]etsockopt|getsockname|getpeername|madvise)\s*\("
    r"|(?<![\w>])::(read|write|readv|writev|recv|send|recvmsg|sendmsg|accept|connect|open|close"
    r"|poll|fsync|fdatasync|socket|bind|listen|shutdown|dup3?|pipe2?|stat|fstat|fcntl|ioctl|mmap"
    r"|munmap|getsockopt|setsockopt|getsockname|getpeername|socketpair|madvise|fork)\s*\("
    r"|\b(steady_clock|system_clock|high_resolution_clock)::now\b")

# Where else a system call stands, and why it may. A path that ends in "/" means everything below.
ALLOWED_CALLS = {
    "bridge/include/ringloop/handle.h": "a producer has no driver: a thread or process of others",
    "bridge/src/python/shared_handle.cpp": "memory and descriptors that outlive the loop",
    "kernels/src/execution.cpp": "a worker's own CPU time, which no driver knows",
    "kernels/src/priority.cpp": "a worker lowers its own priority",
    "python/native/probe.cpp": "measures from a bare thread, beside every driver",
}


def kernel_door(source: Source,
                allowed: Collection[str] = ALLOWED_CALLS) -> Iterator[Finding]:
    if not source.is_cpp or not source.path.startswith(LIBRARY) or source.path.startswith(DOOR):
        return
    if any(source.path.startswith(path) for path in allowed):
        return
    for number, line in enumerate(source.lines, 1):
        match = _INCLUDE.match(line)
        if match is not None and _KERNEL_HEADERS.match(match.group(1)):
            yield from source.finding(number, "kernel-door",
                                      f"{match.group(1)} belongs to {DOOR} only")
    for number, line in enumerate(source.code_lines, 1):
        match = _CALLS.search(line)
        if match is not None:
            yield from source.finding(number, "kernel-door",
                                      f"{match.group().strip('( ')}: calls to the kernel belong to "
                                      f"{DOOR}, behind driver.hpp")


# ---- symbols of what was built

def undefined_symbols(library: Path) -> list[str]:
    listed = subprocess.run(["nm", "--undefined-only", "--format=posix", str(library)], check=True,
                            capture_output=True, text=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line and " " in line]


def python_symbols(library: Path) -> list[str]:
    """What `library` would need Python for."""
    return sorted({name for name in undefined_symbols(library) if re.match(r"_?Py[A-Z_]", name)})


def compute_symbols(library: Path) -> list[str]:
    """What `library` would need oneTBB, a BLAS or a codec for."""
    return sorted({name for name in undefined_symbols(library)
                   if re.match(r"_ZN?K?(3tbb|S?_?ZN3tbb)|cblas_|jpeg_", name)})


def exported_symbols(module: Path) -> list[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", "--format=posix", str(module)],
                            check=True, capture_output=True, text=True).stdout
    return sorted(line.split()[0] for line in listed.splitlines() if line)


def build_folder() -> Path | None:
    """The build whose libraries are looked at: RINGLOOP_BUILD, which ./dev test sets."""
    folder = os.environ.get("RINGLOOP_BUILD")
    return Path(folder) if folder else None
