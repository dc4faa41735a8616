"""Samples the gauges of a store every ten seconds: waiting jobs, workers, size. Any process may.

The time of the last sample is a document, put with the sample by its version: of several concurrent samples one counts.
A store that takes long to count is counted less often.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import msgspec
from msgspec import Struct, structs

from headrace.core.damaged_records import read_or
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.documents import Document
from headrace.core.jobs.records import QueueCount, WorkerRow
from headrace.core.metrics import buckets
from headrace.core.metrics.buckets import MARKS, MINUTE, TEN_SECONDS, TIMED
from headrace.core.metrics.gauges import STORE, Gauges, Sample, as_gauges, sample_of_jobs, then
from headrace.engines.protocol.engine import Engine
from headrace.runtime.retention.deleted_queues import deleted_queues
from headrace.runtime.retention.staleness import last_scan

# Rest 50 × as long as the count took (2 % of a core). Interactive readers accept a sample up to two minutes old.
_REST, _REST_OF_READERS, _LONGEST_REST_OF_READERS = 50, 500, 120_000

_READ_AGAIN_MS = 1_800_000  # some gauges change without an event
_LONGEST_GAP = 5 * MINUTE.span  # between two samples of an idle store

_gauges = msgspec.json.Decoder(Gauges)
_PENDING = DeadLetterFilter(statuses=("pending",))


class SampleMark(Struct, frozen=True, array_like=True):
    """When gauges were last sampled, and how many milliseconds that took."""

    at: int = 0
    took: int = 0

    def is_due(self, now: int, *, for_reader: bool = False) -> bool:
        """Once per finest bucket, after its rest. A time in the future comes from a wrong clock."""
        rest = min(_REST_OF_READERS * self.took, _LONGEST_REST_OF_READERS) if for_reader else _REST * self.took
        return self.at > now or (now >= self.at + rest and TEN_SECONDS.start(now) > TEN_SECONDS.start(self.at))


_mark_of = msgspec.json.Decoder(SampleMark).decode


def gauges_of(stored: str) -> Gauges:
    """The gauges of a bucket; none if they are damaged."""
    return read_or(_gauges.decode, stored, {})


class StoreGauges(Struct, frozen=True):
    """What the store reported, and when: all of it changes with an event, or slowly."""

    at: int
    queue_counts: list[QueueCount]
    queues: list[str]
    of_store: dict[str, float]

    def sample(self, workers: list[WorkerRow], now: int) -> Sample:
        """The gauges now, with these workers: a killed worker sends no event."""
        sample = sample_of_jobs(self.queue_counts, workers, self.queues, now)
        sample[STORE].update(self.of_store)
        return sample


class GaugeSampler:
    """The sampler of one process. Without new events it reuses what it has read and put itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last_read: StoreGauges | None = None
        self._put: dict[str, Document] = {}  # the last of each kind, unless another process put one since

    def sample(self, now: int | None = None, *, for_reader: bool = False, quiet: bool = False) -> bool:
        """Sample the gauges if they are due; whether they were.

        With `for_reader` a reader waits for it; `quiet` means no events since the last sample.
        """
        now = self._engine.clock.now() if now is None else now
        known = self._put if quiet else {}
        mark = self._found(MARKS, "sample", known)
        last = SampleMark() if mark is None else read_or(_mark_of, mark.value, SampleMark())
        if not last.is_due(now, for_reader=for_reader):
            return False
        began = time.perf_counter()
        if not quiet or self._last_read is None or now - self._last_read.at > _READ_AGAIN_MS:
            self._last_read = self._read(now)
        gauges = as_gauges(self._last_read.sample(self._engine.queries.workers(), now))
        took = round(1000 * (time.perf_counter() - began))
        documents = [_next(MARKS, "sample", mark, SampleMark(now, took)), *self._added(gauges, now, known)]
        if quiet:
            documents[:0] = _between(last.at, now, gauges)
        is_stored = self._engine.document_store.put(documents)
        self._put = {one.kind: structs.replace(one, version=one.version + 1) for one in documents} if is_stored else {}
        return True

    def _found(self, kind: str, key: str, known: Mapping[str, Document]) -> Document | None:
        """The stored document; None if the known one has another key, as this one is new then."""
        if kind in known:
            return known[kind] if known[kind].key == key else None
        return next(iter(self._engine.document_store.get(kind, [key])), None)

    def _read(self, now: int) -> StoreGauges:
        queries, facts = self._engine.queries, self._engine.maintenance.facts(now)
        gone = deleted_queues(self._engine)
        queues = [row.name for row in queries.rules().queues if row.name not in gone]
        of_store = {"dead": float(self._engine.dead_letters.count(_PENDING)), "store_bytes": float(facts.size)}
        if facts.busy is not None:
            of_store["busy"] = facts.busy
        if facts.clients is not None:
            of_store["clients"] = float(facts.clients)
        of_store["schedules"] = float(facts.schedules)
        if (scan := last_scan(self._engine)) is not None:
            of_store["stale"] = scan.stale
        return StoreGauges(now, queries.queue_counts(open_only=True), queues, of_store)

    def _added(self, gauges: Gauges, now: int, known: Mapping[str, Document]) -> Iterator[Document]:
        for width in TIMED:
            key = buckets.key(width.start(now), "g")
            document = self._found(width.kind, key, known)
            yield _next(
                width.kind, key, document, gauges if document is None else then(gauges_of(document.value), gauges)
            )


def _between(last: int, now: int, gauges: Gauges) -> Iterator[Document]:
    """The minutes without a sample since the last one: nothing happened in them."""
    if now - last <= _LONGEST_GAP:
        for start in MINUTE.starts(last + MINUTE.span, now - MINUTE.span):
            yield _next(MINUTE.kind, buckets.key(start, "g"), None, gauges)


def _next(kind: str, key: str, document: Document | None, value: SampleMark | Gauges) -> Document:
    return Document(kind, key, 0 if document is None else document.version, msgspec.json.encode(value).decode())
