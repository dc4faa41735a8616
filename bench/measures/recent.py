"""Whether the newest archived jobs are read as fast however many older ones there are."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from statistics import median

import msgspec

from bench.ground import Ground, Store
from bench.history import finished_job
from bench.measure import Figure, Goal, Measure, Ratio, Readings
from bench.tasks import in_batches, open_subject
from headrace.core.jobs.records import Filter
from headrace.core.jobs.transfer import JobExport
from headrace.core.retention.archive import Interval, row_of
from headrace.engines.protocol.archive import Archive

_DAY = 86_400_000
_PARTITIONS = 10
_BEGIN = int(datetime(2025, 3, 11, tzinfo=UTC).timestamp()) * 1000  # ten days of one month: one partition, or ten
_RUNS = 9
_BATCH = 5000
_LAYOUTS: dict[str, Interval] = {"partitions": "daily", "one table": "monthly"}
_QUESTIONS: dict[str, Callable[[Archive, Filter], object]] = {
    "page": lambda archive, which: archive.find(which, 50),
    "count": lambda archive, which: archive.count(which),
    "durations": lambda archive, which: archive.durations(which),
}
_TITLES = {
    "page": "the newest 50",
    "count": "how many ended",
    "durations": "how long they ran, by task",
    "everything": "how long those of all ten days ran",
}


def recent(ground: Ground) -> Readings:
    """Ask for the archived jobs of the last day of ten: where each day has a partition, and where all are in one.

    Both have the same rows and the same indexes, and the rows came in the order of their ends, as in a sweep. What all
    ten days together take is asked as well. What is read is the median of some answers. Redis has no archive.
    """
    if ground.engine == "redis":
        return {}
    readings: Readings = {}
    for layout, interval in _LAYOUTS.items():
        build = partial(_build, jobs=ground.sizes.history, interval=interval)
        store = ground.kept(f"archive, {interval}", build)
        ground.place.rest(store.url)
        with open_subject(store.url, store.durability).app as app:
            archive = app.engine.archive
            assert archive is not None
            which = Filter(since=_BEGIN + (_PARTITIONS - 1) * _DAY)
            for name, question in _QUESTIONS.items():
                readings[f"{name}, {layout}"] = _asked(partial(question, archive, which))
            readings[f"everything, {layout}"] = _asked(partial(archive.durations, Filter()))
    return readings


def _build(store: Store, jobs: int, interval: Interval) -> None:
    subject = open_subject(store.url, store.durability)
    with subject.app as app:
        archive = app.engine.archive
        assert archive is not None
        pattern = row_of(JobExport(finished_job(subject, 0), [], []))
        for numbers in in_batches(range(jobs), _BATCH):
            ends = {number: _BEGIN + _PARTITIONS * _DAY * number // jobs for number in numbers}
            rows = [
                msgspec.structs.replace(
                    pattern,
                    id=f"{number:08x}",
                    task=f"task-{number % 20}",
                    created_at=at,
                    finished_at=at,
                    duration=number,
                )
                for number, at in ends.items()
            ]
            archive.add(rows, interval)
        app.admin.optimize()
        filled = sum(one.jobs > 0 for one in archive.partitions())
        assert filled == (_PARTITIONS if interval == "daily" else 1)


def _asked(question: Callable[[], object]) -> float:
    question()  # what is read from the disk first is the same for both
    taken = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        question()
        taken.append(time.perf_counter() - began)
    return 1000 * median(taken)


MEASURE = Measure(
    "recent",
    recent,
    tuple(
        Figure(f"{name}, {layout}", f"{title}, in {layout}", "ms", Goal("at most", 50) if name == "page" else None)
        for name, title in _TITLES.items()
        for layout in _LAYOUTS
    ),
    (
        *(
            Ratio(f"{name}, one table", f"{name}, partitions", f"{title}: one table / partitions")
            for name, title in _TITLES.items()
        ),
        Ratio("everything, one table", "durations, partitions", "all days in one table / the last in partitions"),
    ),
)
