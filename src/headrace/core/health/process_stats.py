"""How the process of a worker does: its share of a core and its memory, as it last told. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read_or
from headrace.core.documents import STAYS, Document

KIND = f"{STAYS}vitals"
HOLDS = 60_000  # ms after which what a process told is no longer true of it
KEPT = 3_600_000


class MemoryTrace(Struct, frozen=True, kw_only=True):
    """What a process that traces its memory last saw: bytes `allocated` by Python, the `peak`, and the lines of code
    whose share has grown since its first look, those that grew most first."""

    allocated: int
    peak: int
    growth: tuple[str, ...]


class ProcessStats(Struct, frozen=True, array_like=True):
    """`cpu` is the share of one core since it last told, `memory` in bytes; `trace` only of one that traces it."""

    at: int
    cpu: float
    memory: int
    trace: MemoryTrace | None = None


_decoder = msgspec.json.Decoder(ProcessStats)
_NEVER = ProcessStats(0, 0.0, 0)


def _decode(stored: str) -> ProcessStats:
    return read_or(_decoder.decode, stored, _NEVER)  # so that what is damaged is outdated


def key_of(host: str, pid: int) -> str:
    return f"{host}:{pid}"


def document_of(key: str, version: int, vitals: ProcessStats) -> Document:
    return Document(KIND, key, version, msgspec.json.encode(vitals).decode())


def told(documents: Iterable[Document], now: int) -> dict[str, ProcessStats]:
    """What processes told a moment ago, by their keys."""
    read = {document.key: _decode(document.value) for document in documents}
    return {key: vitals for key, vitals in read.items() if now - vitals.at <= HOLDS}


def outdated(documents: Iterable[Document], now: int) -> list[Document]:
    """The papers of processes that have long been silent."""
    return [document for document in documents if now - _decode(document.value).at > KEPT]
