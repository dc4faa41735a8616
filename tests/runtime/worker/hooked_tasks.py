"""An app with hooks, for tasks in processes of their own, which have to import it."""

from __future__ import annotations

import contextvars
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, TypeVar

from headrace import INJECTED, Headrace, JobContext, current_job

app = Headrace("memory://")
_hooked: contextvars.ContextVar[str] = contextvars.ContextVar("hooked", default="")
_worker = int(os.environ.setdefault("HOOKED_TASKS_WORKER", str(os.getpid())))


class Counter:
    def __init__(self) -> None:
        self.count = 0


class AsyncCounter(Counter):
    pass


@app.around_attempt
async def mark(job: JobContext) -> AsyncIterator[None]:
    token = _hooked.set(current_job().id)
    yield
    _hooked.reset(token)


@app.provide(per="worker")
def counter() -> Iterator[Counter]:
    yield from _made(Counter())


@app.provide(per="worker")
async def async_counter() -> AsyncIterator[AsyncCounter]:
    for counter in _made(AsyncCounter()):
        yield counter


C = TypeVar("C", bound=Counter)


def _made(counter: C) -> Iterator[C]:
    yield counter
    Path(os.environ["HOOKED_TASKS_CLOSED"]).write_text(str(counter.count))


def _report(counter: Counter) -> dict[str, Any]:
    counter.count += 1
    return {"hooked": _hooked.get(), "sandboxed": os.getpid() != _worker, "count": counter.count}


@app.task(isolation="process", queue="one")
def work(counter: Counter = INJECTED) -> dict[str, Any]:
    return _report(counter)


@app.task(isolation="process", queue="one")
async def awork(counter: AsyncCounter = INJECTED) -> dict[str, Any]:
    return _report(counter)
