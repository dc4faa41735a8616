"""Queues where single calls asked that their jobs go as soon as they are over.

Who sweeps may never have run such a job: they are run by other workers, or over HTTP. So a queue is noted in the store
by whoever meets one there, and forgotten when nobody has for long.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from headrace.core.documents import STAYS, Document
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable

_KIND = f"{STAYS}removing"  # what is carried to another store is met there again
_DAY = 86_400_000
_NOTED_FOR = 30 * _DAY


class RemoveOnFinish:
    """`seen` are the queues where this process has met such jobs, as they grow in number."""

    def __init__(self, engine: Engine, seen: Collection[str]) -> None:
        self._engine = engine
        self._seen = seen
        self._noted: dict[str, int] = {}  # when

    def note(self) -> None:
        """Note in the store what was seen, once a day."""
        now = self._engine.clock.now()
        fresh = [queue for queue in tuple(self._seen) if now - self._noted.get(queue, -_DAY) >= _DAY]
        # A store that is full takes no word any more; what is noted here is swept up here all the same.
        with contextlib.suppress(EngineUnavailable):
            if fresh and self._put(fresh, now):
                self._noted |= dict.fromkeys(fresh, now)

    def _put(self, queues: list[str], now: int) -> bool:
        known = {document.key: document.version for document in self._engine.document_store.get(_KIND, queues)}
        return self._engine.document_store.put(
            [Document(_KIND, queue, known.get(queue, 0), str(now)) for queue in queues]
        )

    def queues(self) -> set[str]:
        """Where anybody has met such jobs lately."""
        now = self._engine.clock.now()
        documents = self._engine.document_store.browse(_KIND)
        past = [document for document in documents if int(document.value) < now - _NOTED_FOR]
        with contextlib.suppress(EngineUnavailable):  # a store that is full is to be swept all the same
            if past:
                self._engine.document_store.remove(past)
        return {*self._seen, *(document.key for document in documents if document not in past)}
