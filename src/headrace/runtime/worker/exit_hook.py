"""What becomes of an embedded worker when its program ends without stop(): its threads would be cut off."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger("headrace.worker")
_PATIENCE = 10.0


class Stoppable(Protocol):
    """A worker."""

    id: str

    def request_stop(self, patience: float | None = None) -> None: ...
    def join(self, timeout: float | None = None) -> bool: ...


def stop_at_exit(worker: Stoppable) -> Callable[[], None]:
    """Have what it runs given back when the interpreter exits; call the answer when the worker has ended before."""
    home = os.getpid()

    def stop() -> None:
        if os.getpid() == home:  # a forked child has our hook, but not our threads
            log.warning("the program ends while worker %s works; what it runs is given back", worker.id)
            worker.request_stop(0.0)
            worker.join(_PATIENCE)

    atexit.register(stop)
    return lambda: atexit.unregister(stop)
