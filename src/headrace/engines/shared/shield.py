"""Keeps a `JobInterrupted` out of code that a task calls and that must not stop halfway, such as operations of a store.

An exception that is raised from another thread can come between any two steps: also between one that takes a lock and
one that makes sure of its release. Code whose locks other threads need is decorated with `shielded`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

# By thread, for those that run an interruptible task. Inside such a `with` nothing is raised from outside.
shields: dict[int, AbstractContextManager[Any]] = {}


def shielded(function: Callable[P, R]) -> Callable[P, R]:
    """The function, which no JobInterrupted ends halfway: it is raised before or after the call."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        shield = shields.get(threading.get_ident()) if shields else None
        if shield is None:
            return function(*args, **kwargs)
        with shield:
            return function(*args, **kwargs)

    return call
