"""How much memory this process uses, and whether that is too much."""

from __future__ import annotations

import logging
import os
import sys

from headrace.core.settings.settings import Settings

try:
    import resource
except ImportError:  # Windows
    HAS_RESOURCE = False
else:
    HAS_RESOURCE = True

log = logging.getLogger("headrace.worker")


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


def needs_recycling(worker: str, settings: Settings) -> bool:
    """Whether its process uses more memory than max_memory."""
    if settings.max_memory is not None and (used := resident_megabytes()) > settings.max_memory:
        log.info("worker %s uses %d MB of %d and is recycled", worker, used, settings.max_memory)
        return True
    return False
