"""What the runtime tests are made of: gates at which tasks wait for the test, and ways to write one task as two."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

from headrace import Headrace, Retry, Worker
from headrace.core.jobs.records import HistoryRow
from tests.support.waiting import PATIENCE

SOON = Retry(limit=3, backoff="fixed", base=0.001, floor=0.001, jitter=0)


class Gate:
    """A place in a task where it waits until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    def wait_until_reached(self) -> None:
        assert self.reached.wait(PATIENCE), "no task came to the gate"

    def pass_through(self) -> None:
        self.reached.set()
        assert self._open.wait(PATIENCE), "the test never opened the gate"

    async def apass_through(self) -> None:
        self.reached.set()
        while not self._open.is_set():
            await asyncio.sleep(0.002)


def through(kind: str, gate: Gate, function: Callable[..., Any] = lambda: None) -> Callable[..., Any]:
    """A task of this kind that passes the gate and then does what the function does."""
    if kind == "async":

        @functools.wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            await gate.apass_through()
            return function(*args, **kwargs)

        return coroutine

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        gate.pass_through()
        return function(*args, **kwargs)

    return plain


def as_kind(kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, or the same as a coroutine function."""
    if kind != "async":
        return function

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return coroutine


def history_rows(app: Headrace, job_id: str) -> list[HistoryRow]:
    return app.engine.queries.details(job_id).history


def running(worker: Worker) -> int:
    return worker.describe().running
