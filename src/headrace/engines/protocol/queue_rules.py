"""The rules of queues and tasks, which claims follow: limits, rates, orders, lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules


class RuleStore(Protocol):
    """The rules, and what they count at this moment."""

    def set_rules(self, name: str, rules: QueueRules | TaskRules) -> None:
        """Replace the rules of the queue or the task of this name; every process follows within a second."""
        ...

    def tasks(self) -> list[TaskRow]:
        """Every task that has rules, by name."""
        ...

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        """How many jobs hold a live lease, by queue, task and lane."""
        ...

    def rate_state(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        """For queues with these rates: when, in microseconds, the full burst is available again.

        Queues that have not started anything for long may be missing. See `core.queues.limits.allows`.
        """
        ...

    def lanes_needing(self) -> list[tuple[str, str, int, str]]:
        """The lanes of pending jobs that need a capability of their worker: queue, lane, how many, the id of one."""
        ...
