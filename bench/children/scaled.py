"""A program that enqueues the jobs of a step of `bench.scale`: `scaled LOAD JOBS`, the load as JSON.

Only enqueue_many() is timed: what a caller takes to make its calls is the same at every step.
"""

from __future__ import annotations

import functools
import sys
import time
from typing import Any

import msgspec

from bench.child import Timed
from bench.scale.axes import Load
from bench.stage import store, wait_for_go
from bench.tasks import Subject, in_batches, open_subject
from headrace import Task


def enqueue(subject: Subject, load: Load, jobs: int) -> Timed:
    """Spread evenly over the queues, names and keys of the load."""
    ballast, choose = load.ballast, functools.cache(functools.partial(_task, subject, load))
    kinds = max(load.queues, load.names, load.keys, 1)
    seconds, processor = 0.0, 0.0
    for numbers in in_batches(range(jobs), load.batch):
        calls = [choose(number % kinds).bind(number, *([ballast] if ballast else [])) for number in numbers]
        began, used = time.perf_counter(), time.process_time()
        subject.app.enqueue_many(calls)
        seconds, processor = seconds + time.perf_counter() - began, processor + time.process_time() - used
    return Timed(jobs, seconds, processor)


def _task(subject: Subject, load: Load, kind: int) -> Task[..., Any, Any]:
    """The task with its options, made once: using() for each call takes longer than the call."""
    task = subject.named[kind] if load.names > 1 else subject.noop
    if load.queues > 1:
        return task.using(queue=f"queue-{kind}")
    return task.using(rate_key=f"key-{kind}") if load.keys else task


def main(load_text: str, jobs: str) -> None:
    load = msgspec.json.decode(load_text, type=Load)
    subject = open_subject(*store(), load.names)
    with subject.app:
        enqueue(subject, load, 1)
        wait_for_go()
        print(msgspec.json.encode(enqueue(subject, load, int(jobs))).decode(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
