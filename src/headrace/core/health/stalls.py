"""Parts of a worker that make no progress although its process lives, as its heartbeat reported. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
from msgspec import Struct

from headrace.core.damaged_records import read_or, readable
from headrace.core.documents import STAYS, Document
from headrace.core.health.findings import Finding

KIND = f"{STAYS}stalls"


class Stall(Struct, frozen=True):
    """A part of a worker, and since when it has made no progress."""

    worker: str
    part: str
    since: int


_decode = msgspec.json.Decoder(Stall).decode
_NO_STALL = Stall("", "", 0)


def document_of(stall: Stall) -> Document:
    return Document(KIND, f"{stall.worker}/{stall.part}", 0, msgspec.json.encode(stall).decode())


def decode_stalls(documents: Iterable[Document]) -> list[Stall]:
    return list(readable(_decode, (document.value for document in documents)))


def left_behind(documents: Iterable[Document], workers: Collection[str]) -> list[Document]:
    """The documents of workers that no longer exist."""
    return [document for document in documents if read_or(_decode, document.value, _NO_STALL).worker not in workers]


def stall_findings(stalls: Iterable[Stall], now: int) -> list[Finding]:
    """The findings about stalls."""
    return [
        Finding(
            code="stalled_workers",
            sentence=f"the {stall.part} of worker {stall.worker} has hung for {(now - stall.since) // 1000} s",
            advice="its log shows where it hangs; restart the worker",
            examples=(stall.worker,),
        )
        for stall in stalls
    ]
