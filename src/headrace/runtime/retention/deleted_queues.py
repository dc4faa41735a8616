"""Deleted queues: they are not listed until they are used again.

The store still knows them, since producers remember which queues it knows: a later job is never lost.
"""

from __future__ import annotations

from headrace.core.documents import STAYS, Document
from headrace.engines.protocol.engine import Engine
from headrace.runtime.documents import documents_of

_KIND = f"{STAYS}deleted queues"


def mark_deleted(engine: Engine, queue: str) -> None:
    if not engine.document_store.get(_KIND, [queue]):
        engine.document_store.put([Document(_KIND, queue, 0, "")])


def deleted_queues(engine: Engine) -> set[str]:
    """All queues that were ever deleted; one with jobs or rules is in use again."""
    return {document.key for document in documents_of(engine.document_store, _KIND)}
