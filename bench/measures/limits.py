"""What rules of order, limits and keys cost a drain, where they are used and where they are not."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable

from bench.child import time_in_child
from bench.ground import Ground, Store
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.tasks import Subject, in_batches, open_subject

_TURNS = 3
_PLENTY = 1_000_000  # what never holds a job back, so that the figure is the cost of asking
_KEYS = 1000

Rules = Callable[[Subject], object]


def _of_queue(**rules: object) -> Rules:
    return lambda subject: subject.app.queue("default").configure(**rules)


def _of_others(subject: Subject) -> None:
    """A busy store's rules, of none of the jobs that are drained."""
    subject.app.queue("others").configure(rate="100/s", concurrency=5, max_length=10_000, strategy="fifo")


# Each way: its rules, and how many keys its jobs have.
_WAYS: dict[str, tuple[Rules, int]] = {
    "no rules": (lambda subject: None, 0),
    "rules of another queue": (_of_others, 0),
    "concurrency of the queue": (_of_queue(concurrency=_PLENTY), 0),
    "rate of the queue": (_of_queue(rate=f"{_PLENTY}/s"), 0),
    "fifo": (_of_queue(strategy="fifo"), 0),
    "ageing": (_of_queue(ageing=60), 0),
    "concurrency of the task": (lambda subject: subject.app.configure_task(subject.noop.name, concurrency=_PLENTY), 0),
    "10 keys": (lambda subject: None, 10),
    "1000 keys": (lambda subject: None, _KEYS),
}


def limits(ground: Ground) -> Readings:
    """Drain the same jobs under each of these rules, none of which holds one back.

    The ways take turns, and what is read are their medians, so that a slow moment of the machine falls on all alike.
    """
    read: defaultdict[str, list[float]] = defaultdict(list)
    for turn in range(_TURNS):
        names = list(_WAYS)
        for name in names[turn:] + names[:turn]:
            with ground.store() as store:
                jobs = ground.sizes.shallow
                _fill(store, jobs, *_WAYS[name])
                read[name].append(time_in_child(ground, store, "drainer", jobs).rate)
    return {name: statistics.median(rates) for name, rates in read.items()}


def _fill(store: Store, jobs: int, rule: Rules, keys: int) -> None:
    subject = open_subject(store.url, store.durability)
    with subject.app as app:
        rule(subject)
        for numbers in in_batches(range(jobs)):
            app.enqueue_many(
                [
                    (subject.noop.using(rate_key=f"key-{number % keys}") if keys else subject.noop).bind(number)
                    for number in numbers
                ]
            )


MEASURE = Measure(
    "limits",
    limits,
    tuple(Figure(name, f"drain, {name}") for name in _WAYS),
    tuple(
        Ratio(name, "no rules", f"{name} / no rules", Goal("at least", 0.97) if "another" in name else None)
        for name in _WAYS
        if name != "no rules"
    ),
)
