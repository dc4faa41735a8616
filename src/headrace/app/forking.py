"""Resets every app of a process in a forked child."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Startable(Protocol):
    """An object with threads, locks or connections."""

    def reset_after_fork(self) -> None:
        """Reset in a forked child."""
        ...


_known: WeakSet[Startable] = WeakSet()


def start_afresh_after_fork(app: Startable) -> None:
    """Reset this object in every child, as long as it exists."""
    _known.add(app)


def _start_all_afresh() -> None:
    for app in list(_known):
        app.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)
