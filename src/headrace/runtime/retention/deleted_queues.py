"""Deleted queues: they are not listed until they are used again.

The store still knows them, since producers remember which queues it knows: a later job is never lost.
"""

from __future__ import annotations

from headrace.core.documents import STAYS, Document
from headrace.engines.protocol.engine import Engine

_KIND = f"{STAYS}deleted queues"
_PAGE_SIZE = 1000


def mark_deleted(engine: Engine, queue: str) -> None:
    if not engine.document_store.get(_KIND, [queue]):
        engine.document_store.put([Document(_KIND, queue, 0, "")])


def deleted_queues(engine: Engine) -> set[str]:
    """All queues that were ever deleted; one with jobs or rules is in use again."""
    found: set[str] = set()
    first = ""
    while page := engine.document_store.browse(_KIND, first, limit=_PAGE_SIZE):
        found |= {document.key for document in page}
        if len(page) < _PAGE_SIZE:
            break
        first = page[-1].key + "\0"
    return found
