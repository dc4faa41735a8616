"""Queues that were deleted: they are on no list until they are used again.

A store goes on to know them, since producers remember which queues it knows: a job that comes later is never lost.
"""

from __future__ import annotations

from headrace.core.documents import STAYS, Document
from headrace.engines.protocol.engine import Engine

_KIND = f"{STAYS}deleted queues"
_AT_ONCE = 1000


def mark_deleted(engine: Engine, queue: str) -> None:
    if not engine.document_store.get(_KIND, [queue]):
        engine.document_store.put([Document(_KIND, queue, 0, "")])


def deleted_queues(engine: Engine) -> set[str]:
    """Those that were ever deleted; who has jobs or rules again is in use."""
    found: set[str] = set()
    first = ""
    while page := engine.document_store.browse(_KIND, first, limit=_AT_ONCE):
        found |= {document.key for document in page}
        if len(page) < _AT_ONCE:
            break
        first = page[-1].key + "\0"
    return found
