"""The largest resident memory of this process; light, for processes whose memory is compared."""

import resource
import sys
from contextlib import suppress
from pathlib import Path


def peak_bytes() -> int:
    """Return this process's largest resident memory since it started, or since :func:`reset_peak`."""
    status = Path("/proc/self/status")
    if status.exists():
        # Not getrusage: a child begins with its parent's maximum there.
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak() -> bool:
    """Let the peak start anew from what is resident now; False where the system offers no such thing."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
        return True
    return False
