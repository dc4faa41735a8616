"""Has every app of a process start afresh in a forked child. Knows nothing of what that means to them."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Startable(Protocol):
    """What has threads, locks or connections of its own."""

    def start_afresh(self) -> None:
        """In a forked child: nothing of that is ours."""
        ...


_known: WeakSet[Startable] = WeakSet()


def start_afresh_after_fork(app: Startable) -> None:
    """Tell this one, in every child, as long as it is there."""
    _known.add(app)


def _start_all_afresh() -> None:
    for app in list(_known):
        app.start_afresh()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)
