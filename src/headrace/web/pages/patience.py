"""Waiting for a bulk action as long as somebody at a browser would; it goes on behind all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from headrace.errors import HeadraceError

T = TypeVar("T")
_PATIENCE = 5.0  # seconds


def patiently(act: Callable[[], T]) -> T | None:
    """What it returns, or None if it takes longer than somebody would wait. It is done all the same."""
    ended: list[T] = []
    failed: list[HeadraceError] = []

    def run() -> None:
        try:
            ended.append(act())
        except HeadraceError as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="headrace-bulk", daemon=True)
    thread.start()
    thread.join(_PATIENCE)
    if failed:
        raise failed[0]
    return ended[0] if ended else None
