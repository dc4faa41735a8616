"""Requeues dead letters automatically if the settings say so: any worker, in small batches, each one once.

A dead letter waits `after`, and with each requeue of its job `factor` times as long. After `limit` requeues an operator
decides. Two workers may read the same dead letters; the store gives each to one of them.
"""

from __future__ import annotations

import logging

from headrace.core.clock import to_ms
from headrace.core.dead_letters.records import DeadLetterFilter, RequeueRequest
from headrace.core.settings.requeue_times import requeued_after
from headrace.core.settings.settings import Settings
from headrace.core.text import counted
from headrace.engines.protocol.engine import Engine

log = logging.getLogger("headrace.maintenance")

BY = "headrace"
DETAIL = "requeued automatically"
_BATCH_SIZE = 100
_LONGEST_PAUSE, _SHORTEST_PAUSE = 60.0, 1.0


class AutoRequeue:
    """Maintenance task: requeues dead letters that are older than `after` seconds."""

    def __init__(self, engine: Engine, settings: Settings, after: float) -> None:
        self._engine = engine
        self._after = after
        self._settings = settings
        self._limit = settings.dead_requeue_limit
        self._more = False
        self._reached: dict[int, str | None] = {}

    def do(self) -> float:
        if done := self.requeue_due():
            log.warning("%s requeued automatically", counted(done, "dead letter"))
        return _SHORTEST_PAUSE if self._more else min(max(self._after / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE)

    def requeue_due(self) -> int:
        """Requeue the due dead letters; returns their number."""
        done, self._more = 0, False
        for count in range(self._limit):
            found, requeued = self._requeue(count, requeued_after(self._settings, self._after, count))
            done, self._more = done + requeued, self._more or found == _BATCH_SIZE
        return done

    def _requeue(self, count: int, after: float) -> tuple[int, int]:
        """The dead letters of jobs that were requeued so often: how many were read and how many were requeued."""
        due = DeadLetterFilter(statuses=("pending",), requeues=count, until=self._engine.clock.now() - to_ms(after))
        dead_letters = self._engine.dead_letters.find(due, _BATCH_SIZE, self._reached.get(count))
        # A dead letter that can't be requeued stays, and must not block those behind it.
        self._reached[count] = dead_letters[-1].id if len(dead_letters) == _BATCH_SIZE else None
        if not dead_letters:
            return 0, 0
        requests = [RequeueRequest(dead_letter.id, boost=0, most=self._limit) for dead_letter in dead_letters]
        if (
            self._engine.transfer.store_status() is not None
        ):  # the store is being copied: workers of the target will requeue them
            return 0, 0
        done = self._engine.dead_letters.requeue(requests, BY, None, DETAIL)
        return len(dead_letters), sum(each.result in ("requeued", "stored_anew") for each in done)
