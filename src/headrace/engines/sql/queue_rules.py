"""The rules of queues and tasks in a SQL database, and what they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from headrace.core.jobs.queue_rules import LimitState, QueueRules, Rate, RateOwner, TaskRules
from headrace.engines.shared.operation_timing import timed_part
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.rate_buckets import buckets_of
from headrace.engines.sql.transaction import Database, Transaction

_running = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_buckets = msgspec.json.Decoder(list[tuple[str, int]])
_ASSIGN_BATCH_SIZE = 20_000  # numbers of jobs, most of them likely of other tasks


@timed_part
class SqlRuleStore:
    """Reads and writes rules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set_rules(self, name: str, rules: QueueRules | TaskRules) -> None:
        if isinstance(rules, QueueRules):
            text, now = None if rules == QueueRules() else as_json(rules), self._database.at(None)
            self._database.write(lambda tx: tx.run("set_queue_rules", name=name, rules=text, now=now))
        else:
            self._set_task_rules(name, rules)
        self._database.forget_rules()
        if isinstance(rules, TaskRules) and rules.strategy is not None:
            self._assign_task_lanes(name)
        self._database.ring("work")

    def _set_task_rules(self, name: str, rules: TaskRules) -> None:
        def write(tx: Transaction) -> int:
            if rules == TaskRules():
                return tx.run("drop_task_rules", name=name)
            return tx.run("set_task_rules", name=name, rules=as_json(rules))

        self._database.write(write)

    def _assign_task_lanes(self, task: str) -> None:
        """Move the open jobs of the task into lanes, where its order applies; in batches, to keep locks short."""
        first, last = msgspec.json.decode(self._fetch("span"), type=tuple[int, int])
        for after in range(first - 1, last, _ASSIGN_BATCH_SIZE):
            self._assign_some_lanes(task, after)

    def _assign_some_lanes(self, task: str, after: int) -> None:
        lane_limit, until = as_json(f"t:{task}"), after + _ASSIGN_BATCH_SIZE
        self._database.write(
            lambda tx: tx.run("assign_lanes", task=task, lane_limit=lane_limit, after=after, until=until)
        )

    def limit_state(self, rates: Mapping[RateOwner, Rate] | None = None, now: int | None = None) -> LimitState:
        at = self._database.at(now)
        names = {owner: [one.name for one in buckets_of(rate, *owner)] for owner, rate in (rates or {}).items()}

        def read(tx: Transaction) -> LimitState:
            every = [name for of_owner in names.values() for name in of_owner]
            found = dict(_buckets.decode(tx.fetch("rate_buckets", names=as_json(every)))) if every else {}
            full_at = {
                owner: [found.get(name, 0) for name in of_owner]
                for owner, of_owner in names.items()
                if any(name in found for name in of_owner)
            }
            return LimitState(_running.decode(tx.fetch("running", now=at)), full_at)

        return self._database.read(read)

    def _fetch(self, statement: str, **values: Any) -> Any:
        def read(tx: Transaction) -> Any:
            return tx.fetch(statement, **values)

        return self._database.read(read)
