"""Reads the gauges of a store every ten seconds: how much waits, who works, how large it is. Any process may.

When they were last read is a paper, put with the readings by its version: of several who read at once one is counted.
A store that takes long to count is counted less often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headrace.core import buckets
from headrace.core.buckets import MARKS, TEN_SECONDS, TIMED
from headrace.core.damage import read_or
from headrace.core.gauges import STORE, Gauges, Sample, as_gauges, sample_of_jobs, then
from headrace.core.letters import LetterFilter
from headrace.core.shelf import Paper
from headrace.engines.protocol import Engine
from headrace.runtime.deleted_queues import deleted_queues
from headrace.runtime.staleness import last_survey

# Times as long as it took that is rested: a fiftieth of a core at most. Who waits for an answer rather takes one that
# somebody else has read, up to two minutes ago.
_REST, _REST_OF_READERS, _LONGEST_REST_OF_READERS = 50, 500, 120_000

_gauges = msgspec.json.Decoder(Gauges)
_PENDING = LetterFilter(statuses=("pending",))


class Mark(Struct, frozen=True, array_like=True):
    """When gauges were last read, and how many milliseconds that took."""

    at: int = 0
    took: int = 0

    def is_due(self, now: int, *, to_read: bool = False) -> bool:
        """Once in each of the finest buckets, if it had its rest. A time to come is of a clock that was wrong."""
        rest = min(_REST_OF_READERS * self.took, _LONGEST_REST_OF_READERS) if to_read else _REST * self.took
        return self.at > now or (now >= self.at + rest and TEN_SECONDS.start(now) > TEN_SECONDS.start(self.at))


_mark_of = msgspec.json.Decoder(Mark).decode


def gauges_of(stored: str) -> Gauges:
    """The gauges of a bucket; none if they are damaged."""
    return read_or(_gauges.decode, stored, {})


class Sampler:
    """One process's hand in it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def sample(self, now: int | None = None, *, to_read: bool = False) -> bool:
        """Read the gauges if it is time; whether it was. With `to_read` somebody waits for it."""
        now = self._engine.clock.now() if now is None else now
        version, mark = self._read_mark()
        if not mark.is_due(now, to_read=to_read):
            return False
        began = time.perf_counter()
        gauges = as_gauges(self._read(now))
        took = round(1000 * (time.perf_counter() - began))
        told = msgspec.json.encode(Mark(now, took)).decode()
        self._engine.shelf.put([Paper(MARKS, "sample", version, told), *self._added(gauges, now)])
        return True

    def _read_mark(self) -> tuple[int, Mark]:
        for paper in self._engine.shelf.get(MARKS, ["sample"]):
            return paper.version, read_or(_mark_of, paper.value, Mark(0, 0))
        return 0, Mark()

    def _read(self, now: int) -> Sample:
        desk, strain = self._engine.desk, self._engine.care.strain(now)
        gone = deleted_queues(self._engine)
        queues = [row.name for row in desk.queues() if row.name not in gone]
        sample = sample_of_jobs(desk.depths(open_only=True), desk.workers(), queues, now)
        sample[STORE]["dead"] = self._engine.letters.count(_PENDING)
        sample[STORE]["store_bytes"] = strain.size
        if strain.busy is not None:
            sample[STORE]["busy"] = strain.busy
        if strain.clients is not None:
            sample[STORE]["clients"] = strain.clients
        sample[STORE]["schedules"] = self._engine.timetable.count()
        if (survey := last_survey(self._engine)) is not None:
            sample[STORE]["stale"] = survey.stale
        return sample

    def _added(self, gauges: Gauges, now: int) -> Iterator[Paper]:
        for width in TIMED:
            key = buckets.key(width.start(now), "g")
            paper = next(iter(self._engine.shelf.get(width.kind, [key])), None)
            whole = gauges if paper is None else then(gauges_of(paper.value), gauges)
            yield Paper(width.kind, key, 0 if paper is None else paper.version, msgspec.json.encode(whole).decode())
