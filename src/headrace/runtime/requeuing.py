"""Requeues dead letters by itself where a setting asks for it: any worker, in small batches, each letter once.

A letter waits `after`, and with each requeue of its job `factor` times as long. What was requeued `limit` times is
left to people. Two workers may look at the same letters; the store lets one of them have each.
"""

from __future__ import annotations

import time

from headrace.core.clock import to_ms
from headrace.core.letters import LetterFilter, Requeue
from headrace.core.settings import Settings
from headrace.engines.protocol import Engine

BY = "headrace"
DETAIL = "requeued automatically"
_AT_ONCE = 100
_LONGEST_PAUSE, _SHORTEST_PAUSE = 60.0, 1.0


class Requeuing:
    """Looks now and then for letters whose time has come."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._after = settings.dead_requeue_after
        self._factor = settings.dead_requeue_factor
        self._limit = settings.dead_requeue_limit
        self._next_look = 0.0
        self._reached: dict[int, str | None] = {}

    def look(self) -> int:
        """Requeue what is due, if it is time to look; how many."""
        if self._after is None or time.monotonic() < self._next_look:
            return 0
        done, more = 0, False
        for count in range(self._limit):
            found, requeued = self._requeue(count, self._after * self._factor**count)
            done, more = done + requeued, more or found == _AT_ONCE
        pause = min(max(self._after / 10, _SHORTEST_PAUSE), _LONGEST_PAUSE)
        self._next_look = time.monotonic() + (_SHORTEST_PAUSE if more else pause)
        return done

    def _requeue(self, count: int, after: float) -> tuple[int, int]:
        """The letters of jobs that were requeued so often: how many were looked at and how many are requeued."""
        due = LetterFilter(statuses=("pending",), requeues=count, until=self._engine.clock.now() - to_ms(after))
        letters = self._engine.letters.find(due, _AT_ONCE, self._reached.get(count))
        # A letter that can't be requeued stays where it is, and must not be in the way of those behind it.
        self._reached[count] = letters[-1].id if len(letters) == _AT_ONCE else None
        if not letters:
            return 0, 0
        orders = [Requeue(letter.id, boost=0, most=self._limit) for letter in letters]
        done = self._engine.letters.requeue(orders, BY, None, DETAIL)
        return len(letters), sum(each.verdict in ("requeued", "stored_anew") for each in done)
