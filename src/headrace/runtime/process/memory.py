"""How much memory this process uses."""

from __future__ import annotations

import os
import sys

try:
    import resource
except ImportError:  # Windows
    HAS_RESOURCE = False
else:
    HAS_RESOURCE = True


def resident_megabytes() -> float:
    """The resident memory now, or its peak where the system does not provide that."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    except (OSError, ValueError, IndexError):
        pass
    if not HAS_RESOURCE:
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
