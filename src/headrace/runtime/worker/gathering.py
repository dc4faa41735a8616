"""The claims of batch tasks that a worker holds until their batch is full, or has waited long enough.

Only the worker thread uses it. A claim whose lease is lost meanwhile is left out.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from headrace.runtime.worker.attempt import Attempt, Batch, Stage

_Key = tuple[str, float | None]  # a task, and the time-out that the attempts of a batch share


class _Gathered:
    """Attempts for one batch."""

    def __init__(self, most: int, until: float) -> None:
        self.attempts: list[Attempt] = []
        self.most = most
        self.until = until


class Gathering:
    """The incomplete batches of one worker. Each reserves a slot."""

    def __init__(self) -> None:
        self._open: dict[_Key, _Gathered] = {}
        self.is_used = False  # whether the worker has met a batch task

    def __len__(self) -> int:
        return len(self._open)

    def add(self, attempts: list[Attempt]) -> list[Attempt]:
        """Hold those of batch tasks; returns what can run now: the others, and an attempt of each complete batch."""
        ready = []
        for attempt in attempts:
            limits = attempt.plan.batch
            if limits is None:
                ready.append(attempt)
                continue
            self.is_used = True
            if attempt.claim.crashes:  # alone: if it kills its worker again, that costs no other job an attempt
                ready += Batch([attempt]).attempts
                continue
            key = (attempt.claim.task, attempt.plan.timeout)
            gathered = self._open.get(key)
            if gathered is None:
                gathered = self._open[key] = _Gathered(limits.jobs, time.monotonic() + limits.within)
            gathered.attempts.append(attempt)
            if len(gathered.attempts) >= gathered.most:
                ready += self._complete(key)
        return ready

    def due(self, *, all_of_them: bool = False) -> list[Attempt]:
        """An attempt of each batch that has waited long enough."""
        now = time.monotonic()
        return [
            attempt
            for key, gathered in list(self._open.items())
            if all_of_them or gathered.until <= now
            for attempt in self._complete(key)
        ]

    def _complete(self, key: _Key) -> Sequence[Attempt]:
        held = [attempt for attempt in self._open.pop(key).attempts if attempt.stage is Stage.CLAIMED]
        return Batch(held).attempts[:1]

    def withdraw(self) -> list[Attempt]:
        """All attempts, which are to be given back."""
        attempts = [attempt for gathered in self._open.values() for attempt in gathered.attempts]
        self._open.clear()
        return attempts

    @property
    def pause(self) -> float:
        """Seconds until a batch is due."""
        until = min((gathered.until for gathered in self._open.values()), default=float("inf"))
        return max(until - time.monotonic(), 0.0)

    def wanted(self) -> dict[str, int]:
        """How many more jobs to claim from which queue: at most as many as are there, as other tasks may share it."""
        wanted: dict[str, int] = {}
        for gathered in self._open.values():
            queue, held = gathered.attempts[-1].claim.queue, len(gathered.attempts)
            wanted[queue] = wanted.get(queue, 0) + min(gathered.most - held, held)
        return wanted
