"""How a worker shares its free slots among queues: by weight, and so that none starves.

Every queue earns credit in proportion to its weight and spends it by having jobs taken, so over time the shares are
exact, and even the lightest queue's turn comes. What a queue can't use goes to the others at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headrace.core.model import Share


class Rota:
    """The credit of each queue in one worker."""

    def __init__(self, weights: Mapping[str, int]) -> None:
        self._weights = dict(weights)
        self._credit = dict.fromkeys(weights, 0.0)

    def serve(self, queues: Collection[str]) -> None:
        """Share evenly among these queues from now on; the credit of those known stays."""
        if self._weights.keys() != set(queues):
            self._weights = dict.fromkeys(queues, 1)
            self._credit = {queue: self._credit.get(queue, 0.0) for queue in queues}

    def shares(self, room: int) -> tuple[Share, ...]:
        """Who may take how many of `room` slots, the most deserving first."""
        if not self._weights:
            return ()
        total = sum(self._weights.values())
        for queue, weight in self._weights.items():
            self._credit[queue] += room * weight / total
        order = sorted(self._weights, key=lambda queue: -self._credit[queue])
        quotas = {queue: max(int(self._credit[queue]), 0) for queue in order}
        if not any(quotas.values()):
            quotas[order[0]] = 1
        return tuple(Share(queue, quota) for queue, quota in quotas.items())

    def took(self, taken: Mapping[str, int]) -> None:
        """Spend the credit of what was taken. A queue that had no job keeps at most one turn's worth."""
        for queue in self._credit:
            left = self._credit[queue] - taken.get(queue, 0)
            self._credit[queue] = min(max(left, -float(self._weights[queue])), 1.0)
