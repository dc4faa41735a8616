"""Reads metric buckets from the document store: of one queue or all of them, over a period."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from headrace.core.damaged_records import read, readable
from headrace.core.documents import Document
from headrace.core.metrics import buckets
from headrace.core.metrics.buckets import Resolution
from headrace.core.metrics.cells import SUM, MetricCell, total
from headrace.core.metrics.gauges import Gauges
from headrace.engines.protocol.documents import DocumentStore
from headrace.runtime.metrics.gauges import gauges_of

_KEYS_PER_READ = 1000
_cells = msgspec.json.Decoder(dict[str, MetricCell]).decode
_unread = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_cell = msgspec.json.Decoder(MetricCell).decode

Place = tuple[str, str]  # queue and task


def jobs_in(
    document_store: DocumentStore,
    width: Resolution,
    since: int,
    until: int,
    queue: str | None = None,
    task: str | None = None,
) -> Iterator[tuple[int, dict[Place, MetricCell]]]:
    """For each non-empty bucket and queue: its start, and the cells of each task, or of one."""
    for start, name, text in _queues(document_store, width, since, until, queue):
        cells = _each(text) if task is None else _one(text, task)
        yield start, {(name, known): cell for known, cell in cells.items()}


def sums_in(
    document_store: DocumentStore, width: Resolution, since: int, until: int, queue: str | None = None
) -> Iterator[tuple[int, MetricCell]]:
    """For each non-empty bucket and queue: its start, and the sum over all its jobs."""
    for start, _, text in _queues(document_store, width, since, until, queue):
        yield start, _one(text, SUM).get(SUM) or total(_each(text).values())


def _queues(
    document_store: DocumentStore, width: Resolution, since: int, until: int, queue: str | None
) -> Iterator[tuple[int, str, str]]:
    documents = (
        _browse(document_store, width, since, until)
        if queue is None
        else _named(document_store, width, since, until, "q", queue)
    )
    for document in documents:
        for start, section, name in readable(buckets.parsed, [document.key]):
            if section == "q":
                yield start, name, document.value


def _each(text: str) -> dict[str, MetricCell]:
    cells = read(_cells, text) or {}
    cells.pop(SUM, None)
    return cells


def _one(text: str, name: str) -> dict[str, MetricCell]:
    """Only the wanted cell: skipping a thousand others takes a small part of the time of decoding them."""
    found = (read(_unread, text) or {}).get(name)
    cell = None if found is None else read(_cell, found)
    return {} if cell is None else {name: cell}


def workers_in(
    document_store: DocumentStore, width: Resolution, since: int, until: int
) -> Iterator[tuple[int, dict[str, MetricCell]]]:
    """For each non-empty bucket: its start, and the cells of each worker."""
    for document in _named(document_store, width, since, until, "w"):
        yield buckets.parsed(document.key)[0], _each(document.value)


def retention_runs_in(
    document_store: DocumentStore, width: Resolution, since: int, until: int
) -> Iterator[tuple[int, MetricCell]]:
    """For each non-empty bucket: its start, and the cell of retention runs."""
    for document in _named(document_store, width, since, until, "a"):
        yield buckets.parsed(document.key)[0], total(_each(document.value).values())


def gauges_in(document_store: DocumentStore, width: Resolution, since: int, until: int) -> Iterator[tuple[int, Gauges]]:
    """For each non-empty bucket: its start, and its gauges."""
    for document in _named(document_store, width, since, until, "g"):
        yield buckets.parsed(document.key)[0], gauges_of(document.value)


def _named(
    document_store: DocumentStore, width: Resolution, since: int, until: int, section: buckets.Section, name: str = ""
) -> Iterator[Document]:
    """One document of each bucket, read by key, so that others are not read."""
    keys = [buckets.key(start, section, name) for start in width.starts(since, until)]
    for first in range(0, len(keys), _KEYS_PER_READ):
        yield from document_store.get(width.kind, keys[first : first + _KEYS_PER_READ])


def _browse(document_store: DocumentStore, width: Resolution, since: int, until: int) -> Iterator[Document]:
    first = buckets.range_of(width.start(since))
    last = buckets.range_of(until + 1000) if width.span else None
    while True:
        documents = document_store.get(width.kind, first=first, last=last, limit=_KEYS_PER_READ)
        yield from documents
        if len(documents) < _KEYS_PER_READ:
            return
        first = documents[-1].key + "\x01"  # behind it and before any other: no name has control characters
