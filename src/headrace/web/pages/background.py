"""Runs a bulk action and waits a few seconds for it; a longer one continues in the background."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

log = logging.getLogger("headrace.web")
T = TypeVar("T")
_TIMEOUT = 5.0  # seconds


def run_with_timeout(action: Callable[[], T]) -> T | None:
    """The result of the action, or None if it takes longer; it then continues in the background."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(action())
        except Exception as error:
            future.set_exception(error)

    thread = threading.Thread(target=run, name="headrace-bulk", daemon=True)
    thread.start()
    thread.join(_TIMEOUT)
    if future.done():
        return future.result()
    future.add_done_callback(_log_failure)
    return None


def _log_failure(future: Future[Any]) -> None:
    """Log a failure of an action that continued in the background."""
    if (error := future.exception()) is not None:
        log.error("a bulk action failed in the background", exc_info=error)
