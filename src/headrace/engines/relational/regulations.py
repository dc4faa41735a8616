"""The rules of queues as a process knows them: at most a moment old, so that no insert has to ask."""

from __future__ import annotations

import time
from collections.abc import Collection

import msgspec

from headrace.core.regulation import QueueRules
from headrace.engines.relational.ledger import Ledger

_rules = msgspec.json.Decoder(list[tuple[str, QueueRules]])
_FRESH = 0.5  # seconds


class Regulations:
    """Which queues hold only so many jobs."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}
        self._until = 0.0

    @property
    def are_fresh(self) -> bool:
        return time.monotonic() < self._until

    def learn(self, ledger: Ledger) -> None:
        """Read them anew."""
        self._until = time.monotonic() + _FRESH
        told = _rules.decode(ledger.ask("queue_rules"))
        self._lengths = {queue: rules.max_length for queue, rules in told if rules.max_length is not None}

    def lengths_of(self, queues: Collection[str]) -> dict[str, int]:
        """How many jobs may wait in each of these queues that has a limit."""
        return {queue: self._lengths[queue] for queue in queues if queue in self._lengths} if self._lengths else {}

    def forget(self) -> None:
        self._lengths, self._until = {}, 0.0
