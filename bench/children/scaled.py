"""A program that enqueues the jobs of a step of `bench.scale`: `scaled LOAD JOBS`, the load as JSON."""

from __future__ import annotations

import sys

import msgspec

from bench.scale.axes import Load
from bench.stage import report_time_of, store
from bench.tasks import Subject, in_batches, open_subject
from headrace import Call


def enqueue(subject: Subject, load: Load, jobs: int) -> int:
    """Spread evenly over the queues, names and keys of the load."""
    ballast = "x" * load.payload
    for numbers in in_batches(range(jobs), load.batch):
        subject.app.enqueue_many([_call(subject, load, number, ballast) for number in numbers])
    return jobs


def _call(subject: Subject, load: Load, number: int, ballast: str) -> Call[int]:
    task = subject.named[number % load.names] if load.names > 1 else subject.noop
    if load.queues > 1:
        task = task.using(queue=f"queue-{number % load.queues}")
    if load.keys:
        task = task.using(rate_key=f"key-{number % load.keys}")
    return task.bind(number, ballast) if ballast else task.bind(number)


def main(load_text: str, jobs: str) -> None:
    load = msgspec.json.decode(load_text, type=Load)
    subject = open_subject(*store(), load.names)
    with subject.app:
        enqueue(subject, load, 1)
        report_time_of(lambda: enqueue(subject, load, int(jobs)))


if __name__ == "__main__":
    main(*sys.argv[1:])
