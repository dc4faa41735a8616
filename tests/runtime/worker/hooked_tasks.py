"""An app with hooks, for tasks in processes of their own, which have to import it."""

from __future__ import annotations

import contextvars
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any

from headrace import INJECTED, Headrace, JobContext

app = Headrace("memory://")
_hooked: contextvars.ContextVar[bool] = contextvars.ContextVar("hooked", default=False)
_worker = int(os.environ.setdefault("HOOKED_TASKS_WORKER", str(os.getpid())))


class Counter:
    def __init__(self) -> None:
        self.count = 0


class AsyncCounter(Counter):
    pass


@app.around_attempt
def mark(job: JobContext) -> Iterator[None]:
    token = _hooked.set(True)
    yield
    _hooked.reset(token)


@app.provide(per="worker")
def counter() -> Counter:
    return Counter()


@app.provide(per="worker")
async def async_counter() -> AsyncIterator[AsyncCounter]:
    yield AsyncCounter()


def _report(counter: Counter) -> dict[str, Any]:
    counter.count += 1
    return {"hooked": _hooked.get(), "sandboxed": os.getpid() != _worker, "count": counter.count}


@app.task(isolation="process", queue="one")
def work(counter: Counter = INJECTED) -> dict[str, Any]:
    return _report(counter)


@app.task(isolation="process", queue="one")
async def awork(counter: AsyncCounter = INJECTED) -> dict[str, Any]:
    return _report(counter)
