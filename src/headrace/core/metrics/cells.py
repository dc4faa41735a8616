"""Counts and durations of jobs within a time, summed from event pages in bulk.

Whole groups of a page are folded: the work per single job is done in C.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from msgspec import Struct, field

from headrace.core.metrics.histogram import NOTHING, Histogram, merged

K = TypeVar("K")
COMPLETED_AFTER_RETRY, FAILED_AFTER_RETRY = "completed_after_retry", "failed_after_retry"  # among `other`
COUNTS: Final = ("enqueued", "started", "completed", "errors", "failed", "retried", "cancelled")


class MetricCell(Struct, frozen=True, array_like=True):
    """The counts of jobs of one task in one queue, or of one worker, within a bucket.

    `errors` are failed attempts, whether or not the job is retried. `wait` is from when a job could run until an
    attempt began, `run` from there to the end of the attempt. `other` are all other events, by their type.
    """

    enqueued: int = 0
    started: int = 0
    completed: int = 0
    errors: int = 0
    failed: int = 0
    retried: int = 0
    cancelled: int = 0
    wait: Histogram = NOTHING
    run: Histogram = NOTHING
    other: dict[str, int] = field(default_factory=dict)

    def plus(self, that: MetricCell) -> MetricCell:
        """The sum of both."""
        return total((self, that))


EMPTY = MetricCell()


def total(cells: Iterable[MetricCell]) -> MetricCell:
    """The sum of all."""
    some = list(cells)
    counts = {name: sum(getattr(cell, name) for cell in some) for name in COUNTS}
    waits, runs = merged(cell.wait for cell in some), merged(cell.run for cell in some)
    other: Counter[str] = Counter()
    for cell in some:
        other.update(cell.other)
    return MetricCell(**counts, wait=waits, run=runs, other=dict(other))


def add(into: dict[K, MetricCell], more: Mapping[K, MetricCell]) -> dict[K, MetricCell]:
    """Add cells to the existing ones."""
    for name, cell in more.items():
        known = into.get(name)
        into[name] = cell if known is None else known.plus(cell)
    return into


SUM: Final = " "  # no task and no worker has this name
OTHERS: Final = "all others"  # nor this one
MANY: Final = 8
MOST: Final = 200  # named cells of one document


def added(before: dict[str, MetricCell], fresh: Mapping[str, MetricCell]) -> dict[str, MetricCell]:
    """The cells of a document with more added. Where they are many, their sum is one of them, under SUM.

    So the sum of a queue with many tasks takes one cell to read. Names beyond the first MOST are counted together,
    under OTHERS: a document does not grow with the number of names.
    """
    known = before.get(SUM)
    new = [name for name in fresh if name not in before]
    beyond = set(new[max(MOST - len(before), 0) :])
    after = add(before, {name: cell for name, cell in fresh.items() if name not in beyond})
    if beyond:
        add(after, {OTHERS: total(fresh[name] for name in beyond)})
    if known is not None:
        after[SUM] = known.plus(total(fresh.values()))
    elif len(after) >= MANY:
        after[SUM] = total(after.values())
    return after
