"""A program that enqueues with headrace: `producer single|threads|many|tasks JOBS`."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable

from bench.stage import report_time_of, store
from bench.tasks import Subject, open_subject

_THREADS = 8
_TASKS = 64
_WARM_UP = 100


def single(subject: Subject, jobs: int) -> int:
    """One call and one commit after the other."""
    for number in range(jobs):
        subject.noop.enqueue(number)
    return jobs


def threads(subject: Subject, jobs: int) -> int:
    """Threads that enqueue at the same time, as in a web server."""
    share = jobs // _THREADS
    callers = [threading.Thread(target=single, args=(subject, share)) for _ in range(_THREADS)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return share * _THREADS


def many(subject: Subject, jobs: int) -> int:
    """Batches of a thousand, a commit each."""
    subject.fill(jobs)
    return jobs


def tasks(subject: Subject, jobs: int) -> int:
    """asyncio tasks that enqueue at the same time."""
    share = jobs // _TASKS

    async def caller() -> None:
        for number in range(share):
            await subject.noop.aenqueue(number)

    async def all_callers() -> None:
        await asyncio.gather(*(caller() for _ in range(_TASKS)))

    asyncio.run(all_callers())
    return share * _TASKS


_WAYS: dict[str, Callable[[Subject, int], int]] = {"single": single, "threads": threads, "many": many, "tasks": tasks}


def main(way: str, jobs: str) -> None:
    subject = open_subject(*store())
    with subject.app:
        single(subject, _WARM_UP)
        report_time_of(lambda: _WAYS[way](subject, int(jobs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
