"""The rules of queues and tasks in Redis, and what they count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.core.jobs.queue_rules import LimitState, QueueRules, Rate, RateOwner, TaskRules
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import Script, load
from headrace.engines.shared.operation_timing import timed_part

if TYPE_CHECKING:
    from headrace.engines.redis.connections import Value
    from headrace.engines.redis.database import RedisDatabase

_ASSIGN_BATCH_SIZE = 500  # jobs that one script puts into lanes; some 10 ms
_set_queue_rules, _set_task_rules, _assign_task_lanes = (
    load("queues/set_queue_rules"),
    load("queues/set_task_rules"),
    load("queues/assign_task_lanes"),
)
_limit_state = load("queues/limit_state")


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

    def limit_state(self, rates: Mapping[RateOwner, Rate] | None = None, now: int | None = None) -> LimitState:
        self._database.prepare()
        windows = [(owner, window) for owner, rate in (rates or {}).items() for window in rate.windows]
        args: list[Value] = []
        for owner, window in windows:
            args += [window.every, window.burst, window.period, int(window.units), len(owner), *owner]
        found, moments = self._read(_limit_state, self._database.at(now), *args)
        kinds = zip(found[::4], found[1::4], found[2::4], found[3::4], strict=True)
        running = sorted((*map(serialization.text, (queue, task, lane)), jobs) for queue, task, lane, jobs in kinds)
        full_at: dict[RateOwner, list[int]] = {}
        for (owner, _), moment in zip(windows, moments, strict=True):
            full_at.setdefault(owner, []).append(int(moment or 0))
        return LimitState(running, {owner: found for owner, found in full_at.items() if any(found)})

    def _read(self, script: Script, *args: Value) -> Any:
        self._database.prepare()
        return self._database.connections.run(script, *args, repeat=args)
