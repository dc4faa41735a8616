"""Logs at DEBUG how long the operations of a store take, with the logger `headrace.store`.

No interruption of a task ends an operation halfway.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from headrace.engines.shared.shield import shielded

log = logging.getLogger("headrace.store")
K = TypeVar("K")
_ENGINE_OPERATIONS = (
    "insert",
    "exchange",
    "save_step",
    "renew",
    "reap",
    "release_unknown_claims",
    "migrate",
)


def timed_engine(kind: type[K]) -> type[K]:
    """An engine whose own operations are timed."""
    return _timed(kind, "", _ENGINE_OPERATIONS)


def timed_part(kind: type[K]) -> type[K]:
    """A part of an engine, such as its queries, whose operations are timed."""
    part = next(name for name in ("Redis", "Postgres", "Sqlite", "Sql") if kind.__name__.startswith(name))
    public = [name for name, found in vars(kind).items() if isinstance(found, FunctionType) and name[0] != "_"]
    return _timed(kind, f"{kind.__name__.removeprefix(part).lower()}.", public)


def _timed(kind: type[K], prefix: str, names: Any) -> type[K]:
    for name in names:
        setattr(kind, name, _timed_call(f"{prefix}{name}", getattr(kind, name)))
    return kind


def _timed_call(operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @shielded
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not log.isEnabledFor(logging.DEBUG):
            return function(*args, **kwargs)
        began, failure = time.perf_counter(), ""
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            failure = f", and raised {type(error).__name__}"
            raise
        finally:
            elapsed = round(1000 * (time.perf_counter() - began), 3)
            fields = {"event": "store.operation", "operation": operation, "ms": elapsed}
            log.debug("%s took %.3f ms%s", operation, elapsed, failure, extra=fields)

    return call
