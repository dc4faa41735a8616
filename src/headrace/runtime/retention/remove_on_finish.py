"""Queues with calls whose jobs are removed on finish.

The worker that runs retention may never have run such a job: other workers or HTTP workers run it. So each process
records such queues in the store, and a record without use expires.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from headrace.core.documents import STAYS, Document
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable

_KIND = f"{STAYS}removing"  # not copied: the target store finds them again
_DAY = 86_400_000
_NOTED_FOR = 30 * _DAY


class RemoveOnFinish:
    """`seen` are the queues where this process has met such jobs; the set grows."""

    def __init__(self, engine: Engine, seen: Collection[str]) -> None:
        self._engine = engine
        self._seen = seen
        self._noted: dict[str, int] = {}  # when each was recorded

    def note(self) -> None:
        """Record the seen queues in the store, once a day."""
        now = self._engine.clock.now()
        fresh = [queue for queue in tuple(self._seen) if now - self._noted.get(queue, -_DAY) >= _DAY]
        # A full store accepts no write; retention in this process uses them anyway.
        with contextlib.suppress(EngineUnavailable):
            if fresh and self._put(fresh, now):
                self._noted |= dict.fromkeys(fresh, now)

    def _put(self, queues: list[str], now: int) -> bool:
        known = {document.key: document.version for document in self._engine.document_store.get(_KIND, queues)}
        return self._engine.document_store.put(
            [Document(_KIND, queue, known.get(queue, 0), str(now)) for queue in queues]
        )

    def queues(self) -> set[str]:
        """The queues where any process has met such jobs lately."""
        now = self._engine.clock.now()
        documents = self._engine.document_store.get(_KIND)
        past = [document for document in documents if int(document.value) < now - _NOTED_FOR]
        with contextlib.suppress(EngineUnavailable):  # retention must run on a full store as well
            if past:
                self._engine.document_store.put((), past)
        return {*self._seen, *(document.key for document in documents if document not in past)}
