"""Claims that mind rules: rates, concurrency, lanes, and orders other than by priority. One transaction, all of it.

Whoever claims like this is alone with it, so what it counts is what there is. A queue without rules and without
lanes never comes here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from headrace.core import limits
from headrace.core.limits import Doorkeeper, Gate, Head
from headrace.core.model import Claim, QueueRules, Rate, Strategy, TaskRules, Want
from headrace.engines.relational.ledger import Ledger
from headrace.engines.sql import as_json

_claims = msgspec.json.Decoder(list[Claim])
_heads = msgspec.json.Decoder(list[Head])
_names = msgspec.json.Decoder(list[str])
_numbers = msgspec.json.Decoder(list[int])
_buckets = msgspec.json.Decoder(list[tuple[str, int]])
_running = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_LANES_AT_ONCE, _MOST_LANES = 50, 1000
_NO_LIMIT = float("inf")


class Rulebook(NamedTuple):
    """What has to be minded at this moment: the rules of queues, which queues have lanes, the rules of tasks."""

    queues: dict[str, QueueRules]
    laned: frozenset[str]
    tasks: dict[str, TaskRules]

    def asks_care(self, queue: str, strategy: Strategy | None) -> bool:
        """Whether a claim from this queue has to be made here."""
        if self.tasks or queue in self.laned or strategy not in (None, "priority"):
            return True
        rules = self.queues.get(queue)
        return rules is not None and rules.shape_claims

    @property
    def is_minded(self) -> bool:
        return self is not _EMPTY

    @property
    def weights(self) -> dict[str, int]:
        return {queue: rules.weight for queue, rules in self.queues.items() if rules.weight is not None}


_book = msgspec.json.Decoder(tuple[list[tuple[str, QueueRules]], list[str], list[tuple[str, TaskRules]]])
_EMPTY = Rulebook({}, frozenset(), {})


def rulebook(told: str) -> Rulebook:
    """What the horizon of a claim tells of rules."""
    if told == "[[],[],[]]":
        return _EMPTY
    queues, laned, tasks = _book.decode(told)
    return Rulebook(dict(queues), frozenset(laned), dict(tasks))


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two moments, of which either may never come."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class Gatekeeper:
    """One claim of one worker, from the queues that ask for care."""

    def __init__(self, ledger: Ledger, book: Rulebook, want: Want, cursors: dict[str, str], now: int) -> None:
        self._ledger = ledger
        self._book = book
        self._want = want
        self._cursors = cursors  # by queue, the lane that was looked at last: each claim goes on from there
        self._now = now
        self._moved = False
        self._buckets: dict[str, int] = {}
        self._spent: dict[str, int] = {}
        self.next_at: int | None = None
        ledger.ask("lock_claims")
        running = _running.decode(ledger.ask("running", now=now))
        self._in_queue: Counter[str] = Counter()
        self._of_task: Counter[str] = Counter()
        self._of_key: Counter[Gate] = Counter()
        for queue, task, lane, jobs in running:
            self._in_queue[queue] += jobs
            self._of_task[task] += jobs
            for gate in limits.gates_of(lane):
                self._of_key[gate] += jobs

    def take(self, queue: str, room: int) -> list[Claim]:
        """Claim up to `room` jobs of the queue, as far as all rules allow."""
        rules = self._book.queues.get(queue, QueueRules())
        allowed = self._allowed(queue, rules, room)
        if allowed <= 0:
            return []
        keeper = Doorkeeper(lambda gate: self._room_of(gate, queue, rules))
        chosen = self._choose(queue, rules, allowed, keeper)
        if not chosen:
            return []
        seqs = as_json([head.seq for head in chosen])
        values = {"seqs": seqs, "worker": self._want.worker}
        self._ledger.run("claim_chosen", **values, now=self._now, until=self._now + self._want.lease)
        claims = _claims.decode(self._ledger.ask("chosen", **values))
        self._account(queue, rules, claims, {head.seq: head for head in chosen})
        return claims

    def settle_accounts(self) -> None:
        """Write down what was spent of rates."""
        if self._spent:
            self._ledger.run("spend", b=as_json(list(self._spent.items())))

    # -- how much

    def _allowed(self, queue: str, rules: QueueRules, room: int) -> int:
        if rules.concurrency is not None:
            room = min(room, rules.concurrency - self._in_queue[queue])
        if rules.rate is not None:
            room = min(room, self._left(f"q:{queue}", rules.rate))
        return room

    def _room_of(self, gate: Gate, queue: str, rules: QueueRules) -> float:
        if gate.kind == "needs":
            return _NO_LIMIT if gate.name in self._want.capabilities else 0
        if gate.kind == "key":
            return (rules.key_concurrency or 1) - self._of_key[gate]
        if gate.kind == "rate":
            return _NO_LIMIT if rules.key_rate is None else self._left(f"r:{queue}:{gate.name}", rules.key_rate)
        return self._room_of_task(gate.name)

    def _room_of_task(self, task: str) -> float:
        rules = self._book.tasks.get(task, TaskRules())
        room = 0 if rules.paused else _NO_LIMIT
        if rules.concurrency is not None:
            room = min(room, rules.concurrency - self._of_task[task])
        if rules.rate is not None and room > 0:
            room = min(room, self._left(f"t:{task}", rules.rate))
        return room

    def _left(self, bucket: str, rate: Rate) -> int:
        """How many may start by this rate; if none, when the next one may."""
        if bucket not in self._buckets:
            found = dict(_buckets.decode(self._ledger.ask("buckets", names=as_json([bucket]))))
            self._buckets[bucket] = found.get(bucket, 0)
        full_at = self._buckets[bucket]
        left = limits.allows(rate, full_at, 1000 * self._now)
        if not left:
            self._come_back(-(-limits.opens_at(rate, full_at) // 1000))
        return left

    def _come_back(self, moment: int) -> None:
        self.next_at = earlier(self.next_at, moment)

    # -- which

    def _choose(self, queue: str, rules: QueueRules, room: int, keeper: Doorkeeper) -> list[Head]:
        """Jobs in a fair order among the lanes, none through a gate that is shut."""
        strategy = self._want.strategy or rules.strategy or "priority"
        free = self._free(queue, strategy, rules.ageing, room)
        if queue not in self._book.laned and not self._moved:
            return free
        chosen: list[Head] = []
        lanes, seen = [free], 0
        after = self._cursors.get(queue, "")
        wrapped = not after
        while True:
            names = _names.decode(self._ledger.ask("lanes", queue=queue, beyond=after, limit=_LANES_AT_ONCE))
            lanes += [self._heads(queue, lane, room) for lane in names if self._is_open(lane, keeper)]
            for head in limits.in_turn(lanes, by_priority=strategy == "priority"):
                if len(chosen) < room and keeper.lets_in(limits.gates_of(head.lane)):
                    chosen.append(head)
            lanes, seen = [], seen + len(names)
            at_the_end = len(names) < _LANES_AT_ONCE
            after = self._cursors[queue] = "" if at_the_end else names[-1]
            if len(chosen) >= room or (at_the_end and wrapped):
                return chosen
            if seen >= _MOST_LANES:  # more than one commit should look at: come again for the rest
                self._come_back(self._now)
                return chosen
            wrapped = wrapped or at_the_end

    def _is_open(self, lane: str, keeper: Doorkeeper) -> bool:
        return all(keeper.room(gate) >= 1 for gate in limits.gates_of(lane))

    def _heads(self, queue: str, lane: str, room: int) -> list[Head]:
        return _heads.decode(self._ledger.ask("heads", queue=queue, lane=lane, limit=room))

    def _free(self, queue: str, strategy: Strategy, ageing: int | None, room: int) -> list[Head]:
        """The front of what waits in no lane; jobs of tasks with rules are put into lanes first."""
        while True:
            heads = self._front(queue, strategy, ageing, room)
            ruled = [head for head in heads if head.task in self._book.tasks]
            if not ruled:
                return heads
            for task in {head.task for head in ruled}:
                seqs = as_json([head.seq for head in ruled if head.task == task])
                self._ledger.run("relane", seqs=seqs, lane=limits.lane_of([Gate("task", task)]))
            self._moved = True

    def _front(self, queue: str, strategy: Strategy, ageing: int | None, room: int) -> list[Head]:
        if strategy == "priority" and not ageing:
            return self._heads(queue, "", room)
        levels = _numbers.decode(self._ledger.ask("levels", queue=queue))
        if strategy == "weighted_random":
            return self._drawn(queue, levels, room)
        end = "newest" if strategy == "lifo" else "oldest"
        fronts = {level: self._at(end, queue, level, room) for level in levels}
        return limits.merged(fronts, strategy, ageing, room)

    def _drawn(self, queue: str, levels: Sequence[int], room: int) -> list[Head]:
        fronts = {level: self._at("oldest", queue, level, room) for level in levels}
        order = limits.drawn({level: len(heads) for level, heads in fronts.items()}, room, random.random)
        left = {level: iter(sorted(heads, key=_age)) for level, heads in fronts.items()}
        return [next(left[level]) for level in order]

    def _at(self, end: str, queue: str, priority: int, room: int) -> list[Head]:
        return _heads.decode(self._ledger.ask(end, queue=queue, priority=priority, limit=room))

    # -- afterwards

    def _account(self, queue: str, rules: QueueRules, claims: list[Claim], heads: Mapping[int, Head]) -> None:
        """Count what has started, for the queues that come after and for the rates."""
        self._in_queue[queue] += len(claims)
        if rules.rate is not None:
            self._spend(f"q:{queue}", rules.rate, len(claims))
        self._of_task.update(claim.task for claim in claims)
        gates = Counter(gate for claim in claims for gate in limits.gates_of(heads[claim.ref].lane))
        for gate, starts in gates.items():
            self._of_key[gate] += starts
            task_rate = self._book.tasks[gate.name].rate if gate.name in self._book.tasks else None
            if gate.kind == "rate" and rules.key_rate is not None:
                self._spend(f"r:{queue}:{gate.name}", rules.key_rate, starts)
            elif gate.kind == "task" and task_rate is not None:
                self._spend(f"t:{gate.name}", task_rate, starts)

    def _spend(self, bucket: str, rate: Rate, starts: int) -> None:
        full_at = limits.spent(rate, self._buckets.get(bucket, 0), 1000 * self._now, starts)
        self._buckets[bucket] = self._spent[bucket] = full_at
        if not limits.allows(rate, full_at, 1000 * self._now):
            self._come_back(-(-limits.opens_at(rate, full_at) // 1000))


def _age(head: Head) -> tuple[int, int]:
    return abs(head.rank), head.seq
