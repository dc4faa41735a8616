"""How a worker shares its free slots among queues: by weight, and so that none starves.

Every queue earns credit in proportion to its weight and spends it by having jobs taken, so over time the shares are
exact, and even the lightest queue's turn comes: the longer it was passed over, the more it has earned. What a queue
can't use goes to the others at once. Two other orders can be had: at random by weight, and strict, where a queue has
its turn only when those named before it are empty.
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
        self._own = dict(weights)  # what the worker was told
        self._rules: dict[str, int] = {}  # what rules of the queues say
        self._order = order
        self._credit = dict.fromkeys(weights, 0.0)

    def serve(self, queues: Collection[str]) -> None:
        """Share among these queues from now on; the credit of those known stays."""
        if self._own.keys() != set(queues):
            self._own = dict.fromkeys(queues, 1)
            self._credit = {queue: self._credit.get(queue, 0.0) for queue in queues}

    def weigh(self, rules: Mapping[str, int]) -> None:
        """Count these queues so many times as much as the worker was told."""
        self._rules = dict(rules)

    def shares(self, room: int) -> tuple[QueueShare, ...]:
        """Who may take how many of `room` slots, the most deserving first."""
        if not self._own:
            return ()
        if self._order == "strict":
            return tuple(QueueShare(queue, room) for queue in self._own)
        if self._order == "random":
            return tuple(QueueShare(queue, room) for queue in self._drawn())
        weights = self._weights()
        total = sum(weights.values())
        for queue, weight in weights.items():
            self._credit[queue] += room * weight / total
        order = sorted(weights, key=lambda queue: -self._credit[queue])
        quotas = {queue: max(int(self._credit[queue]), 0) for queue in order}
        if not any(quotas.values()):
            quotas[order[0]] = 1
        return tuple(QueueShare(queue, quota) for queue, quota in quotas.items())

    def took(self, taken: Mapping[str, int]) -> None:
        """Spend the credit of what was taken. A queue that had no job keeps at most one turn's worth."""
        weights = self._weights()
        for queue in self._credit:
            left = self._credit[queue] - taken.get(queue, 0)
            self._credit[queue] = min(max(left, -float(weights[queue])), 1.0)

    def _weights(self) -> dict[str, int]:
        return {queue: weight * self._rules.get(queue, 1) for queue, weight in self._own.items()}

    def _drawn(self) -> list[str]:
        weights = self._weights()
        return sorted(weights, key=lambda queue: random.random() ** (1 / weights[queue]), reverse=True)
