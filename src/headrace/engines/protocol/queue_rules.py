"""The rules of queues and tasks, which claims follow: limits, rates, orders, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.core.jobs.queue_rules import LimitState, QueueRules, Rate, RateOwner, TaskRules


class RuleStore(Protocol):
    """The rules, and what they count at this moment."""

    def set_rules(self, name: str, rules: QueueRules | TaskRules) -> None:
        """Replace the rules of the queue or the task of this name; every process follows within a second."""
        ...

    def limit_state(self, rates: Mapping[RateOwner, Rate] | None = None, now: int | None = None) -> LimitState:
        """How many jobs hold a live lease, and the buckets of these rates: see `core.queues.limits.allows`.

        A rate under which nothing has started for long may have no bucket.
        """
        ...
