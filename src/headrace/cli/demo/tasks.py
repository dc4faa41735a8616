"""The tasks of `headrace demo`, in a separate module that the worker processes can import.

The store is the one in HEADRACE_URL; the demo sets it to a temporary file before the import.
"""

from __future__ import annotations

import asyncio
import os
import time

from headrace.app.app import Headrace
from headrace.core.tasks.retry import Retry
from headrace.errors import PermanentError
from headrace.runtime.context.current_job import current_job

app = Headrace()


@app.task
def add(a: int, b: int) -> int:
    """A plain function: runs in a thread of the worker."""
    return a + b


@app.task
async def fetch(page: int) -> str:
    """A coroutine: many share one event loop."""
    await asyncio.sleep(0.05)
    return f"page {page}"


@app.task(isolation="process")
def crunch(numbers: int) -> list[int]:
    """Runs in a process of its own, which can crash or be killed without harm to the worker."""
    return [os.getpid(), sum(number * number for number in range(numbers))]


@app.task(retry=Retry(limit=3, backoff="fixed", base=0.2, jitter=0.0))
def flaky() -> str:
    """Fails twice, then succeeds."""
    attempt = current_job().attempt
    if attempt < 3:
        raise ConnectionError(f"the line was busy at attempt {attempt}")
    return f"got through at attempt {attempt}"


@app.task
def doomed(order: int) -> None:
    """Fails for good."""
    raise PermanentError(f"order {order} has no address, and no retry will give it one")


@app.task
def remind(text: str) -> str:
    """Returns its text."""
    return text


@app.task
def render(frames: int) -> int:
    """A slow task that reports its progress."""
    job = current_job()
    for frame in range(frames):
        time.sleep(0.1)
        job.progress((frame + 1) / frames)
    return frames


@app.task
def tick(number: int) -> None:
    """Does nothing, to measure headrace's own cost."""
