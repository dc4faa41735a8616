"""Folds event pages into buckets. Whole groups are folded: the work per single job is done in C.

An event goes into the buckets of its own time, however late its page is read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import msgspec

from headrace.core.damaged_records import read_or
from headrace.core.events.log import EventGroup
from headrace.core.metrics.buckets import EVER, TEN_SECONDS, Resolution, Section
from headrace.core.metrics.cells import COMPLETED_AFTER_RETRY, COUNTS, FAILED_AFTER_RETRY, MetricCell, add
from headrace.core.metrics.histogram import NOTHING, Histogram

# The count of each event type; all others are counted by their type.
_FIELDS: Final = {
    "job.enqueued": "enqueued",
    "job.scheduled": "enqueued",
    "job.started": "started",
    "job.completed": "completed",
    "job.attempt_failed": "errors",
    "job.failed": "failed",
    "job.retry_scheduled": "retried",
    "job.cancelled": "cancelled",
}
# The final events of jobs, with the extra count if they took more than one attempt.
_AFTER_RETRY: Final = {"job.completed": COMPLETED_AFTER_RETRY, "job.failed": FAILED_AFTER_RETRY}
_UNCOUNTED: Final = frozenset({"job.progress", "job.log"})

# Results of retention runs and stale scans, counted separately: they belong to no job.
RETENTION_COUNTS: Final = ("archived", "deleted", "partitions_created", "partitions_detached", "partition_failures")
STALE_COUNTS: Final = ("stale_dead", "stale_failed", "stale_reviewed")

_histogram = partial(msgspec.convert, type=Histogram, strict=False)  # the keys of a JSON object are text
Place = tuple[Section, str, str]  # a queue and a task of it, ("w", "", worker), or ("a", "", "") for the archive
Folded = dict[tuple[int, Place], MetricCell]  # by the start of the bucket


class _CellBuilder:
    """A cell under construction."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.waits: list[int] = []
        self.runs: list[int] = []

    def add(self, kind: str, count: int, waits: Sequence[int], runs: Sequence[int]) -> None:
        self.counts[kind] += count
        self.waits += waits
        self.runs += runs

    def cell(self) -> MetricCell:
        known = {name: self.counts.pop(name) for name in COUNTS if name in self.counts}
        if lost := self.counts["job.stalled"]:  # its attempt is spent
            known["errors"] = known.get("errors", 0) + lost
        return MetricCell(**known, wait=Histogram.of(self.waits), run=Histogram.of(self.runs), other=dict(+self.counts))


def _counted_as(group: EventGroup) -> str:
    # A job that its own attempt postponed is not a new one.
    return "snoozed" if group.type == "job.scheduled" and group.attempts else _FIELDS.get(group.type, group.type)


def _weight(group: EventGroup) -> int:
    """How many occurrences an event stands for: older skipped ones of a schedule share one event."""
    count = group.data[0].get("skipped") if group.type == "schedule.skipped" and group.data else 1
    return count if isinstance(count, int) else 1


def _place_of(group: EventGroup) -> tuple[str, str, str]:
    """The queue, the task and the worker that it counts for. An alert about a task does not count for it."""
    if group.type.startswith("alert."):
        return "", "", ""
    return group.queue or "", group.task or "", group.worker or ""


def fold(groups: Iterable[EventGroup]) -> Folded:
    """The cells of these groups, in the finest buckets."""
    folded: Folded = {}
    builders: defaultdict[tuple[int, str, str, str], _CellBuilder] = defaultdict(_CellBuilder)
    for group in groups:
        if group.type.startswith(("archive.", "stale.")):
            add(folded, {(TEN_SECONDS.start(group.at), ("a", "", "")): _run_cell(group)})
        elif group.type not in _UNCOUNTED:
            kind, place = _counted_as(group), _place_of(group)
            for start, count, waits, runs in _by_bucket(group):
                builders[(start, *place)].add(kind, count * _weight(group), waits, runs)
            if group.type in _AFTER_RETRY and (again := sum(map((1).__lt__, group.attempts))):
                builders[(TEN_SECONDS.start(group.at), *place)].counts[_AFTER_RETRY[group.type]] += again
            if group.type == "dead.resolved":  # also by the resulting status
                ends = Counter(f"dead.{data.get('status')}" for data in group.data)
                builders[(TEN_SECONDS.start(group.at), *place)].counts.update(ends)
    for (start, queue, task, worker), builder in builders.items():
        cell = builder.cell()
        add(folded, {(start, ("q", queue, task)): cell})
        if worker:
            add(folded, {(start, ("w", "", worker)): cell})
    return folded


def _run_cell(group: EventGroup) -> MetricCell:
    """The cell of a retention run or stale scan: its duration, and its jobs and partitions.

    `wait` is how long the stale jobs had lasted.
    """
    data = group.data[0] if group.data else {}
    counts = {name: int(data[name]) for name in (*RETENTION_COUNTS, *STALE_COUNTS) if data.get(name)}
    lasted = read_or(_histogram, data.get("lasted"), NOTHING)
    return MetricCell(run=Histogram.of(group.runs), wait=lasted, other={group.type: 1, **counts})


_Part = tuple[int, int, Sequence[int], Sequence[int]]  # the bucket's start, how many events, waits and runs


def _by_bucket(group: EventGroup) -> Iterable[_Part]:
    """The columns of a group, split by bucket; most often there is one."""
    newest = TEN_SECONDS.start(group.at)
    if not group.ago or group.at - max(group.ago) >= newest:
        return [(newest, group.size, group.waits, group.runs)]
    places: defaultdict[int, list[int]] = defaultdict(list)
    for place, ago in enumerate(group.ago):
        places[TEN_SECONDS.start(group.at - ago)].append(place)
    return [(start, len(some), _at(group.waits, some), _at(group.runs, some)) for start, some in places.items()]


def _at(column: list[int], places: list[int]) -> list[int]:
    return [column[place] for place in places] if column else []


def widened(folded: Folded, width: Resolution) -> Folded:
    """The same in wider buckets. Workers get new names all the time, so they are not counted forever."""
    found: Folded = {}
    for (start, place), cell in folded.items():
        if width is not EVER or place[0] != "w":
            add(found, {(width.start(start), place): cell})
    return found
