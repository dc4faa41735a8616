"""What has to start afresh in a forked child: threads, locks and workers of the parent are not the child's."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
_known: WeakKeyDictionary[object, Callable[[object], None]] = WeakKeyDictionary()


def in_child(thing: T, start_afresh: Callable[[T], None]) -> None:
    """Have this called with the thing in every child, as long as the thing lives."""
    _known[thing] = start_afresh  # type: ignore[assignment]


def _start_all_afresh() -> None:
    for thing, start_afresh in list(_known.items()):
        start_afresh(thing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)
