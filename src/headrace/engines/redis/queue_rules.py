"""The rules of queues and tasks in Redis, and what they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.jobs.queue_rules import QueueRules, Rate, TaskRow, TaskRules, task_rules
from headrace.core.queues.limits import needs_of
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.queries import RedisDatabase

_ASSIGN_BATCH_SIZE = 500  # jobs that one script puts into lanes; some 10 ms
_SCAN_SIZE = 1000  # lanes that one script reads
_set_queue_rules, _set_task_rules, _assign_task_lanes = (
    load("queues/set_queue_rules"),
    load("queues/set_task_rules"),
    load("queues/assign_task_lanes"),
)
_running, _lanes_needing, _rate_state = (
    load("queues/count_running"),
    load("queues/lanes_needing"),
    load("queues/rate_state"),
)


@timed_part
class RedisRuleStore:
    """Reads and writes rules."""

    def __init__(self, database: RedisDatabase) -> None:
        self._database = database

    def set_rules(self, name: str, rules: QueueRules | TaskRules) -> None:
        text = b"" if rules == type(rules)() else msgspec.json.encode(rules)
        if isinstance(rules, QueueRules):
            self._read(_set_queue_rules, self._database.at(None), name, text)
            return
        self._read(_set_task_rules, name, text)
        last = b"0" if rules.strategy is not None else b""
        while last:  # pending jobs move into lanes, where the task's order applies
            last = self._read(_assign_task_lanes, name, last, _ASSIGN_BATCH_SIZE)

    def tasks(self) -> list[TaskRow]:
        self._database.prepare()
        known = self._database.connections.command("HGETALL", f"{{{self._database.prefix}}}:tasks")
        rules = serialization.named(known, task_rules)
        return [TaskRow(name, rules[name]) for name in sorted(rules)]

    def running(self, now: int | None = None) -> list[tuple[str, str, str, int]]:
        self._database.prepare()
        found = self._read(_running, self._database.at(now))
        kinds = zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True)
        return sorted((*map(serialization.text, (queue, task, lane)), jobs) for queue, task, lane, jobs in kinds)

    def rate_state(self, rates: Mapping[str, Rate]) -> dict[str, int]:
        args: list[Value] = [part for name, rate in rates.items() for part in (name, rate.every, rate.burst)]
        return serialization.named(self._read(_rate_state, *args), int)

    def lanes_needing(self) -> list[tuple[str, str, int, str]]:
        self._database.prepare()
        found: dict[tuple[str, str], tuple[int, str]] = {}  # a lane may occur twice
        for queue in self._database.connections.command("SMEMBERS", f"{{{self._database.prefix}}}:queues_with_lanes"):
            reached = b"0"
            while True:
                reached, *lanes = self._read(_lanes_needing, queue, reached, _SCAN_SIZE)
                for lane, jobs, job_id in zip(lanes[::3], lanes[1::3], lanes[2::3], strict=True):
                    found[serialization.text(queue), serialization.text(lane)] = jobs, serialization.text(job_id)
                if reached == b"0":
                    break
        return sorted((*lane, *known) for lane, known in found.items() if needs_of(lane[1]))

    def _read(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)
