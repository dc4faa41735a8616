"""The CPU share and memory of a worker's process, as it last reported. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read_or
from headrace.core.documents import STAYS, Document

KIND = f"{STAYS}vitals"
HOLDS = 180_000  # ms after which a report is outdated; an idle process reports every two minutes
KEPT = 3_600_000


class MemoryTrace(Struct, frozen=True, kw_only=True):
    """The last memory trace of a process.

    Bytes `allocated` by Python, the `peak`, and the lines of code with the most growth since the first look.
    """

    allocated: int
    peak: int
    growth: tuple[str, ...]


class ProcessStats(Struct, frozen=True, array_like=True):
    """`cpu` is the share of one core since the last report, `memory` in bytes; `trace` only with memory tracing."""

    at: int
    cpu: float
    memory: int
    trace: MemoryTrace | None = None


_decoder = msgspec.json.Decoder(ProcessStats)
_NEVER = ProcessStats(0, 0.0, 0)


def _decode(stored: str) -> ProcessStats:
    return read_or(_decoder.decode, stored, _NEVER)  # so that a damaged one is outdated


def key_of(host: str, pid: int) -> str:
    return f"{host}:{pid}"


def document_of(key: str, version: int, stats: ProcessStats) -> Document:
    return Document(KIND, key, version, msgspec.json.encode(stats).decode())


def recent_stats(documents: Iterable[Document], now: int) -> dict[str, ProcessStats]:
    """The recent reports of processes, by key."""
    read = {document.key: _decode(document.value) for document in documents}
    return {key: stats for key, stats in read.items() if now - stats.at <= HOLDS}


def outdated(documents: Iterable[Document], now: int) -> list[Document]:
    """The documents of processes that have long been silent."""
    return [document for document in documents if now - _decode(document.value).at > KEPT]
