"""Memory of this process as the system counts it: what is resident now, and the most since it was last asked."""

import ctypes
import math
import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

_PAGES = Path("/proc/self/statm")
_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_CGROUPS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_NO_LIMIT = 1 << 60
"""Version 1 of cgroups writes a number as large as this for no limit."""


def resident_bytes() -> int:
    """Return the bytes of this process that are in memory now."""
    with suppress(OSError):
        return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return _of_status("VmRSS:")


def peak_bytes() -> int:
    """Return the most bytes of this process that were in memory since :func:`reset_peak`, or since it began."""
    # Not getrusage where it can be helped: a child begins with its parent's maximum there.
    return _of_status("VmHWM:")


KEPT = 16 << 20
"""Freed bytes that a task may leave behind."""


def reset_peak() -> bool:
    """Let the peak start anew from what is resident now."""
    with suppress(OSError):
        _CLEAR.write_text("5")
        return True
    return False


def give_back(*, above: int = 0) -> None:
    """Give memory that was freed back to the system, where the C library can.

    Otherwise it is kept as it was cut: it would hide what grows next, and add to arrays too large for what is kept.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None
    if trim is not None and _kept_free() >= above:
        trim(0)


class _Heap(ctypes.Structure):
    """What glibc says of its heaps: ten numbers, of which the ninth are the freed bytes that it keeps."""

    _fields_ = (("before", ctypes.c_size_t * 8), ("free", ctypes.c_size_t), ("after", ctypes.c_size_t))


def _kept_free() -> float:
    """Return how many freed bytes the C library keeps; infinity where it does not say."""
    ask = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if ask is None:
        return math.inf
    ask.restype = _Heap
    return float(ask().free)


def memory_there() -> int:
    """Return the bytes that this process may have: what is resident, and what the machine and its group leave."""
    free = _available()
    for path in _CGROUPS:
        with suppress(OSError, ValueError):
            limit = int(path.read_text())
            if limit < _NO_LIMIT:
                used = int(
                    path.with_name(path.name.replace("max", "current").replace("limit", "usage")).read_text()
                )
                free = min(free, max(0, limit - used))
    return free + resident_bytes()


def _available() -> int:
    with suppress(OSError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def _of_status(field: str) -> int:
    with suppress(OSError):
        for line in _STATUS.read_text().splitlines():
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
