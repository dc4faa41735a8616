"""The insert rules, cached in a process for a moment, so that no insert has to read them."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

import msgspec

from headrace.core.jobs.queue_rules import queue_rules
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.unique_rules import UniqueInsert
from headrace.core.queues.limits import behind_task
from headrace.engines.sql.transaction import Transaction

_rules = msgspec.json.Decoder(tuple[list[tuple[str, str]], frozenset[str]])
_FRESH = 0.5  # seconds


class RulesCache:
    """Queues with a maximum length, and tasks with an order of their own."""

    def __init__(self) -> None:
        self._lengths: dict[str, int] = {}
        self._ordered: frozenset[str] = frozenset()
        self._until = 0.0

    @property
    def are_fresh(self) -> bool:
        return time.monotonic() < self._until

    def refresh(self, tx: Transaction) -> None:
        """Read the rules again."""
        self._until = time.monotonic() + _FRESH
        queues, self._ordered = _rules.decode(tx.fetch("rules_for_inserts"))
        lengths = {queue: queue_rules(rules).max_length for queue, rules in queues}
        self._lengths = {queue: length for queue, length in lengths.items() if length is not None}

    def lengths_of(self, queues: Collection[str]) -> dict[str, int]:
        """The maximum length of each of these queues that has one."""
        return {queue: self._lengths[queue] for queue in queues if queue in self._lengths} if self._lengths else {}

    def with_lanes(self, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        """The jobs, with those of tasks with an order of their own put into the task's lane.

        In a lane a claim finds the first job by any order; in the queue it would have to read all waiting jobs. A job
        stored before this process knew the rule is moved when a claim finds it.
        """
        return [self._in_its_lane(job) for job in jobs] if self._ordered else jobs

    def candidates_with_lanes(self, candidates: Sequence[UniqueInsert]) -> Sequence[UniqueInsert]:
        """The same for unique inserts."""
        if not self._ordered:
            return candidates
        return [msgspec.structs.replace(candidate, job=self._in_its_lane(candidate.job)) for candidate in candidates]

    def _in_its_lane(self, job: NewJob) -> NewJob:
        if job.task not in self._ordered:
            return job
        return msgspec.structs.replace(job, lane=behind_task(job.lane, job.task))

    def forget(self) -> None:
        self._lengths, self._ordered, self._until = {}, frozenset(), 0.0
