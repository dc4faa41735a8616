"""When a worker process has to be replaced."""

from __future__ import annotations

import logging

from headrace.core.settings.settings import Settings
from headrace.runtime.process.memory import resident_megabytes

log = logging.getLogger("headrace.worker")


def is_worn_out(worker: str, settings: Settings) -> bool:
    """Whether its process uses more memory than max_memory."""
    if settings.max_memory is not None and (used := resident_megabytes()) > settings.max_memory:
        log.info("worker %s uses %d MB of %d and is recycled", worker, used, settings.max_memory)
        return True
    return False
