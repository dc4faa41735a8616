"""How a worker shares its free slots among queues: by weight, and without starvation.

Every queue earns credit in proportion to its weight and spends it when jobs are taken, so over time the shares are
exact, and even the lightest queue gets its turn: the longer it waits, the more it has earned. Slots that a queue can't
use go to the others at once. There are two other orders: random by weight, and strict, where a worker serves a queue
only when those named before it are empty.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Literal

from headrace.core.jobs.records import QueueShare

Order = Literal["weighted", "random", "strict"]


class FairShare:
    """The credit of each queue in one worker."""

    def __init__(self, weights: Mapping[str, int], order: Order = "weighted") -> None:
        self._own = dict(weights)  # the worker's own settings
        self._rules: dict[str, int] = {}  # the rules of the queues
        self._order = order
        self._credit = dict.fromkeys(weights, 0.0)

    def serve(self, queues: Collection[str]) -> None:
        """Share among these queues from now on; known ones keep their credit."""
        if self._own.keys() != set(queues):
            self._own = dict.fromkeys(queues, 1)
            self._credit = {queue: self._credit.get(queue, 0.0) for queue in queues}

    def weigh(self, rules: Mapping[str, int]) -> None:
        """Set the weights that the rules of queues give."""
        self._rules = dict(rules)

    def shares(self, slots: int) -> tuple[QueueShare, ...]:
        """How many of these free slots each queue may take, the one with the most credit first."""
        if not self._own:
            return ()
        if self._order == "strict":
            return tuple(QueueShare(queue, slots) for queue in self._own)
        if self._order == "random":
            return tuple(QueueShare(queue, slots) for queue in self._drawn())
        weights = self._weights()
        total = sum(weights.values())
        for queue, weight in weights.items():
            self._credit[queue] += slots * weight / total
        order = sorted(weights, key=lambda queue: -self._credit[queue])
        quotas = {queue: max(int(self._credit[queue]), 0) for queue in order}
        if not any(quotas.values()):
            quotas[order[0]] = 1
        return tuple(QueueShare(queue, quota) for queue, quota in quotas.items())

    def took(self, taken: Mapping[str, int]) -> None:
        """Spend the credit of the taken jobs. A queue without jobs keeps at most one turn's worth."""
        weights = self._weights()
        for queue in self._credit:
            left = self._credit[queue] - taken.get(queue, 0)
            self._credit[queue] = min(max(left, -float(weights[queue])), 1.0)

    def _weights(self) -> dict[str, int]:
        return {queue: weight * self._rules.get(queue, 1) for queue, weight in self._own.items()}

    def _drawn(self) -> list[str]:
        weights = self._weights()
        return sorted(weights, key=lambda queue: random.random() ** (1 / weights[queue]), reverse=True)
