"""Tells when OpenBLAS does not know the processor and runs far below its speed.

OpenBLAS picks its machine code by a list of processors. One that is newer than the library can fall
through to code for SSE3, a fifth of the speed or less. The choice is made when the library is
loaded and is OpenBLAS's own (OPENBLAS_CORETYPE), so all that is right here is to say so.
"""

from __future__ import annotations

_OLD_CORES = frozenset(
    {"Prescott", "Core2", "Penryn", "Dunnington", "Nehalem", "Opteron", "Generic", "Katmai"}
)


def processor_flags(cpuinfo: str = "/proc/cpuinfo") -> frozenset[str]:
    """The instruction sets of the first processor, in Linux's words; empty where unknown."""
    try:
        with open(cpuinfo, encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("flags"):
                    return frozenset(line.partition(":")[2].split())
    except OSError:
        pass
    return frozenset()


def better_core(core: str, flags: frozenset[str]) -> str | None:
    """The core that OpenBLAS should use instead of `core`, or None if it chose well."""
    if core not in _OLD_CORES:
        return None
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"} <= flags:
        return "SkylakeX"
    if {"avx2", "fma"} <= flags:
        return "Haswell"
    return None


def blas_hint(core: str) -> str | None:
    """A sentence for the log, or None."""
    better = better_core(core, processor_flags())
    if better is None:
        return None
    return (
        f"OpenBLAS does not know this processor and runs as '{core}', several times slower than "
        f"possible: start Python with OPENBLAS_CORETYPE={better} in its environment"
    )
