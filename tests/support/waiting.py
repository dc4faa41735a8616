"""How a test waits for what another thread or process does: as long as a busy machine may need, and no longer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

PATIENCE = 90.0  # seconds; never spent by a test that passes, however busy the machine is


def eventually(holds: Callable[[], T], what: str = "the condition", within: float = PATIENCE) -> T:
    """Wait for a fact that no event announces; the first value that is true."""
    deadline = time.monotonic() + within
    while not (found := holds()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {within:g} s")
        time.sleep(0.005)
    return found
