"""Logs an outage of a store once, and its end once, however many threads of this process notice it."""

from __future__ import annotations

import logging
import threading
import time
from weakref import WeakKeyDictionary

from headrace.engines.protocol.engine import Engine

log = logging.getLogger("headrace.store")


class OutageLog:
    """The log of one store's outages."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: float | None = None

    def failed(self, error: Exception, what_next: str = "trying again") -> None:
        """An operation failed: a warning if it is the first one, else a line at DEBUG."""
        with self._lock:
            is_first = self._since is None
            if self._since is None:
                self._since = time.monotonic()
        extra = {"event": "store.unavailable"}
        log.log(
            logging.WARNING if is_first else logging.DEBUG,
            "the store is not available: %s; %s",
            *(error, what_next),
            extra=extra,
        )

    def worked(self) -> None:
        """An operation succeeded, so that an outage is over."""
        if self._since is None:
            return
        with self._lock:
            since, self._since = self._since, None
        if since is not None:
            seconds = time.monotonic() - since
            log.warning("the store is available again after %.1f s", seconds, extra={"event": "store.available"})


_logs: WeakKeyDictionary[Engine, OutageLog] = WeakKeyDictionary()


def outage_log(engine: Engine) -> OutageLog:
    """The log of this store's outages in this process."""
    known = _logs.get(engine)
    return _logs.setdefault(engine, OutageLog()) if known is None else known
