"""Claims under limits: rates, concurrency, lanes, and orders other than by priority, all in one transaction.

Such claims are serialized, so their counts are exact. A queue without rules and lanes never comes here.
"""

from __future__ import annotations

import functools
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import NamedTuple, TypeVar

import msgspec

from headrace.core.damaged_records import read
from headrace.core.jobs.queue_rules import (
    QueueRules,
    Strategy,
    TaskRules,
    decode_queue_rules,
    decode_task_rules,
)
from headrace.core.jobs.records import Claim, ClaimRequest
from headrace.core.queues import limits
from headrace.core.queues.limits import EVERYTHING, ClaimOrder, Limit, LimitCounter, QueuedJob
from headrace.core.queues.rates import units_of
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.lane_rotation import LaneRotation
from headrace.engines.sql.rate_buckets import Bucket, RateBuckets, buckets_of
from headrace.engines.sql.transaction import Transaction

_claims = Rows(Claim)
_heads = Rows(QueuedJob)
_lane_tops = msgspec.json.Decoder(list[tuple[str, int]])
_numbers = msgspec.json.Decoder(list[int])
_options = msgspec.json.Decoder(list[tuple[int, str | None]])
_running = msgspec.json.Decoder(list[tuple[str, str, str, int]])
_LANE_BATCH_SIZE, _MAX_LANES = 10, 1000
_MOVE_BATCH_SIZE, _MAX_MOVES = 500, 20  # jobs of tasks with rules put into lanes, and how often in one claim
_SCAN_LIMIT = 2000  # jobs that a claim reads to find some that were never tried
_NO_LIMIT = float("inf")
LOCKED = 1000  # milliseconds until jobs locked by another transaction are tried again: no bell rings for them
T = TypeVar("T")


class RulesSnapshot(NamedTuple):
    """The rules in effect: of queues, which queues have lanes, and of tasks."""

    queues: dict[str, QueueRules]
    laned: frozenset[str]
    tasks: dict[str, TaskRules]
    is_damaged: bool = False  # some rules cannot be read: plain claims must not skip them

    def needs_limits(self, queue: str, want: ClaimRequest) -> bool:
        """Whether a claim from this queue must check limits."""
        if queue in self.laned or self.is_damaged or want.strategy not in (None, "priority"):
            return True
        if any(rules.limit_starts for rules in self.tasks.values()):
            return True
        rules = self.queues.get(queue)
        return rules is not None and rules.shape_claims

    @property
    def has_rules(self) -> bool:
        return self is not _EMPTY

    @property
    def weights(self) -> dict[str, int]:
        return {queue: rules.weight for queue, rules in self.queues.items() if rules.weight is not None}


_snapshot_parts = msgspec.json.Decoder(tuple[list[tuple[str, str]], list[str], list[tuple[str, str]]])
_EMPTY = RulesSnapshot({}, frozenset(), {})


def rules_snapshot(text: str) -> RulesSnapshot:
    """The rules in the result of the statement `claim_preamble`."""
    return rules_snapshot_of(*_snapshot_parts.decode(text))


def rules_snapshot_of(
    queues: Iterable[tuple[str, str]], laned: Iterable[str], tasks: Iterable[tuple[str, str]]
) -> RulesSnapshot:
    """The snapshot of the stored rules of queues, the queues with lanes, and the stored rules of tasks."""
    of_queues = {name: read(decode_queue_rules, rules) for name, rules in queues}
    of_tasks = {name: read(decode_task_rules, rules) for name, rules in tasks}
    is_damaged = None in (*of_queues.values(), *of_tasks.values())
    snapshot = RulesSnapshot(_readable(of_queues), frozenset(laned), _readable(of_tasks), is_damaged)
    return snapshot if any(snapshot) else _EMPTY


def _readable(rules: Mapping[str, T | None]) -> dict[str, T]:
    return {name: found for name, found in rules.items() if found is not None}


def earlier(one: int | None, other: int | None) -> int | None:
    """The earlier of two times, either of which may be None (never)."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class LimitedClaim:
    """One claim of one worker, from queues with limits."""

    def __init__(
        self, tx: Transaction, snapshot: RulesSnapshot, want: ClaimRequest, cursors: dict[str, str], now: int
    ) -> None:
        self._tx = tx
        self._snapshot = snapshot
        self._want = want
        self._cursors = cursors  # the lanes at which earlier claims stopped; see LaneRotation
        self._now = now
        self._moved = False
        self._units: dict[int, int] = {}  # of jobs near the front; empty if no rate counts units
        self._rates = RateBuckets(tx, now, self._claim_again_at)
        self.next_at: int | None = None
        tx.fetch("lock_claims")
        running = _running.decode(tx.fetch("running", now=now))
        self._in_queue: Counter[str] = Counter()
        self._of_task: Counter[str] = Counter()
        self._of_key: Counter[Limit] = Counter()
        for queue, task, lane, jobs in running:
            self._in_queue[queue] += jobs
            self._of_task[task] += jobs
            for lane_limit in limits.lane_limits_of(lane):
                self._of_key[lane_limit] += jobs

    def claim(self, queue: str, limit: int) -> list[Claim]:
        """Claim up to `limit` jobs of the queue, as far as all rules allow."""
        rules = self._snapshot.queues.get(queue, QueueRules())
        allowed = self._queue_capacity(queue, rules, limit)
        if allowed <= 0:
            return []
        counter = LimitCounter(lambda lane_limit: self._capacity_of(lane_limit, queue, rules))
        chosen = self._choose(queue, rules, allowed, counter)
        if self._want.known is not None and self._want.known.undecided:
            self._claim_again_at(self._now)
            return []
        if not chosen:
            return []
        seqs = as_json([head.seq for head in chosen])
        values = {"seqs": seqs, "worker": self._want.worker}
        self._tx.run("claim_chosen", **values, now=self._now, until=self._now + self._want.lease)
        claims = _claims.decode(self._tx.fetch("chosen", **values))
        if len(claims) < len(chosen):
            self._claim_again_at(self._now + LOCKED)
        self._count_starts(queue, rules, claims, {head.seq: head for head in chosen})
        return claims

    def store_rates(self) -> None:
        """Store the tokens taken from rate buckets."""
        self._rates.store()

    # -- how much

    def _queue_capacity(self, queue: str, rules: QueueRules, limit: int) -> int:
        if rules.concurrency is not None:
            limit = min(limit, rules.concurrency - self._in_queue[queue])
        if rules.rate is not None:
            limit = min(limit, self._rates.capacity(buckets_of(rules.rate, "queue", queue)))
        return limit

    def _capacity_of(self, lane_limit: Limit, queue: str, rules: QueueRules) -> float:
        if lane_limit.kind == "needs":
            return _NO_LIMIT if {lane_limit.name, EVERYTHING} & set(self._want.capabilities) else 0
        if lane_limit.kind == "key":
            return limits.key_concurrency(lane_limit, rules) - self._of_key[lane_limit]
        if lane_limit.kind == "rate":
            buckets = self._buckets_of(lane_limit, queue, rules)
            return self._rates.capacity(buckets) if buckets else _NO_LIMIT
        return self._task_capacity(lane_limit.name)

    def _task_capacity(self, task: str) -> float:
        rules = self._snapshot.tasks.get(task, TaskRules())
        # A task that the worker does not know counts as paused in this claim.
        limit = 0 if rules.paused or self._is_unknown(task) else _NO_LIMIT
        if rules.concurrency is not None:
            limit = min(limit, rules.concurrency - self._of_task[task])
        if rules.rate is not None and limit > 0:
            limit = min(limit, self._rates.capacity(buckets_of(rules.rate, "task", task)))
        return limit

    def _buckets_of(self, lane_limit: Limit | None, queue: str, rules: QueueRules) -> list[Bucket]:
        """The buckets of a limit, None for that of the queue; empty if it has no rate."""
        if lane_limit is None:
            return buckets_of(rules.rate, "queue", queue)
        if lane_limit.kind == "rate":
            return buckets_of(rules.rate_of_key(lane_limit.name), "key", queue, lane_limit.name)
        of_task = self._snapshot.tasks.get(lane_limit.name) if lane_limit.kind == "task" else None
        return buckets_of(of_task.rate, "task", lane_limit.name) if of_task is not None else []

    def _claim_again_at(self, moment: int) -> None:
        self.next_at = earlier(self.next_at, moment)

    # -- which

    def _choose(self, queue: str, rules: QueueRules, limit: int, counter: LimitCounter) -> list[QueuedJob]:
        """Jobs in a fair order among the lanes, within all limits."""
        order = ClaimOrder(self._want.strategy or rules.strategy or "priority", rules.ageing)
        unlaned = self._unlaned_heads(queue, order, limit)
        if queue not in self._snapshot.laned and not self._moved:
            self._read_units(unlaned, rules)
            return [head for head in unlaned if self._has_units(head, queue, rules)]
        rotation = LaneRotation(self._cursors, queue, order)
        found = list(islice(self._lanes_around(queue, order, *rotation.where), _MAX_LANES))
        if rules.key_rate is not None:
            keys = limits.rated_keys(lane for lane, _ in found)
            self._rates.load(one for key in keys for one in buckets_of(rules.rate_of_key(key), "key", queue, key))
        names = rotation.next_ones((lane, level) for lane, level in found if self._is_open(lane, counter))
        weight_of_lane = functools.partial(limits.lane_weight, rules=rules)
        chosen: dict[int, QueuedJob] = {}
        lanes, window = [unlaned], max(_LANE_BATCH_SIZE, limit)
        for begin in range(0, max(len(names), 1), window):
            lanes += self._fronts(queue, names[begin : begin + window], order, limit, counter)
            self._read_units(chain(*lanes), rules)
            for head in limits.round_robin(lanes, order, rotation.served, rotation.begun, weight_of_lane):
                lane_limits = limits.lane_limits_of(head.lane)
                if len(chosen) >= limit or head.seq in chosen or not counter.has_room(lane_limits):
                    continue
                if self._has_units(head, queue, rules) and counter.admit(lane_limits):
                    chosen[head.seq] = head
                    rotation.serve(head, weight_of_lane(head.lane))
            if len(chosen) >= limit:
                break
            lanes = []
        stopped_early = len(found) == _MAX_LANES
        rotation.store(found[-1][0] if stopped_early else None, found_nothing=not chosen)
        if stopped_early and len(chosen) < limit:
            self._claim_again_at(self._now)  # one commit should not read more lanes: claim again for the rest
        return list(chosen.values())

    def _read_units(self, heads: Iterable[QueuedJob], rules: QueueRules) -> None:
        """Read the units of these jobs, if any rate here counts units."""
        rates = [*rules.rates, *(of_task.rate for of_task in self._snapshot.tasks.values())]
        if not any(window.units for rate in rates if rate is not None for window in rate.windows):
            return
        seqs = [head.seq for head in heads if head.seq not in self._units]
        found = dict(_options.decode(self._tx.fetch("options_of", seqs=as_json(seqs)))) if seqs else {}
        self._units |= {seq: units_of(found.get(seq)) for seq in seqs}

    def _has_units(self, head: QueuedJob, queue: str, rules: QueueRules) -> bool:
        """Whether all rates that count units have room for those of the job; if so, they are reserved."""
        if head.seq not in self._units:
            return True
        of_job = (None, *limits.lane_limits_of(head.lane))
        buckets = [bucket for lane_limit in of_job for bucket in self._buckets_of(lane_limit, queue, rules)]
        counting = [bucket for bucket in buckets if bucket.window.units]
        return not counting or self._rates.reserve(counting, self._units[head.seq])

    def _lanes_around(self, queue: str, order: ClaimOrder, start: str, until: str) -> Iterator[tuple[str, int]]:
        """The lanes of the queue with their levels, from the one after `start` around to `until`, which comes last."""
        for beyond, last in [(start, until)] if start < until else [(start, None), ("", until)]:
            found = [(beyond, 0)]
            while found and last != "":
                found = self._lane_tops(queue, order, found[-1][0])
                yield from (one for one in found if last is None or one[0] <= last)
                if len(found) < _MAX_LANES or (last is not None and found[-1][0] > last):
                    break

    def _lane_tops(self, queue: str, order: ClaimOrder, beyond: str) -> list[tuple[str, int]]:
        """The lanes after this one, each with the level of its most urgent job."""
        if not order.ageing_step:
            return _lane_tops.decode(self._tx.fetch("lane_tops", queue=queue, beyond=beyond, limit=_MAX_LANES))
        rows = self._tx.fetch("lane_tops_by_age", queue=queue, beyond=beyond, limit=_MAX_LANES, point=order.ageing_step)
        return _lane_tops.decode(rows)

    def _fronts(
        self, queue: str, names: Sequence[str], order: ClaimOrder, limit: int, counter: LimitCounter
    ) -> list[list[QueuedJob]]:
        """The heads of the open lanes, after jobs of tasks with rules were moved into lanes of their own."""
        fronts: dict[str, list[QueuedJob]] = {}
        new_lanes: dict[str, None] = {}
        for lane in (lane for lane in names if self._is_open(lane, counter)):
            for _ in range(_MAX_MOVES):
                heads = self._front(queue, lane, order, limit)
                to_move = self._to_move(heads)
                if not to_move:
                    fronts[lane] = heads
                    break
                to_move += self._to_move(self._heads(queue, lane, _MOVE_BATCH_SIZE))
                new_lanes |= dict.fromkeys(self._move_to_lanes(to_move))
            else:
                self._claim_again_at(self._now)
        fronts |= {lane: self._front(queue, lane, order, limit) for lane in new_lanes if self._is_open(lane, counter)}
        return list(fronts.values())

    def _is_open(self, lane: str, counter: LimitCounter) -> bool:
        return all(counter.capacity(lane_limit) >= 1 for lane_limit in limits.lane_limits_of(lane))

    def _heads(self, queue: str, lane: str, limit: int) -> list[QueuedJob]:
        return _heads.decode(self._tx.fetch("lane_heads", queue=queue, lane=lane, limit=limit))

    def _unlaned_heads(self, queue: str, order: ClaimOrder, limit: int) -> list[QueuedJob]:
        """The first jobs without a lane; jobs of tasks with rules are moved into lanes first."""
        for _ in range(_MAX_MOVES):
            heads = self._front(queue, "", order, limit)
            to_move = self._to_move(heads)
            if not to_move:
                return heads
            self._move_to_lanes([*to_move, *self._to_move(self._heads(queue, "", _MOVE_BATCH_SIZE))])
            self._moved = True
        self._claim_again_at(self._now)  # one commit should not move more: later claims get the rest
        return [head for head in heads if head not in to_move]

    def _to_move(self, heads: Sequence[QueuedJob]) -> list[QueuedJob]:
        """Jobs of a task with rules, or unknown to the worker, whose lane does not include that task."""
        tasks = {head.task for head in heads}
        to_move = {task for task in tasks if task in self._snapshot.tasks or self._is_unknown(task)}
        found = [head for head in heads if head.task in to_move] if to_move else []
        return [head for head in found if Limit("task", head.task) not in limits.lane_limits_of(head.lane)]

    def _is_unknown(self, task: str) -> bool:
        """Whether the worker does not know the task."""
        return self._want.known is not None and self._want.known.excludes(task)

    def _move_to_lanes(self, to_move: Iterable[QueuedJob]) -> list[str]:
        """Move each job into its lane with the task added; the names of these lanes."""
        moves: dict[str, set[int]] = {}
        for head in to_move:
            moves.setdefault(limits.behind_task(head.lane, head.task), set()).add(head.seq)
        for lane, seqs in moves.items():
            self._tx.run("move_lane", seqs=as_json(sorted(seqs)), lane=lane)
        return list(moves)

    def _front(self, queue: str, lane: str, order: ClaimOrder, limit: int) -> list[QueuedJob]:
        usual = self._in_order(queue, lane, order, limit)
        own = self._own_strategy(lane)
        if own in (None, order.strategy):
            return usual
        return limits.in_places_of(self._in_order(queue, lane, order._replace(strategy=own), limit), usual)

    def _own_strategy(self, lane: str) -> Strategy | None:
        """The order of a task's own jobs, whatever the order of their queue."""
        tasks = [
            self._snapshot.tasks.get(lane_limit.name)
            for lane_limit in limits.lane_limits_of(lane)
            if lane_limit.kind == "task"
        ]
        return next((rules.strategy for rules in tasks if rules is not None), None)

    def _in_order(self, queue: str, lane: str, order: ClaimOrder, limit: int) -> list[QueuedJob]:
        strategy = order.strategy
        if strategy == "priority" and not order.ageing_step:
            return self._heads(queue, lane, limit)
        if strategy == "fresh_first":
            return self._fresh_first(queue, lane, limit)
        levels = _numbers.decode(self._tx.fetch("levels", queue=queue, lane=lane))
        end = "newest" if strategy == "lifo" else "oldest"
        fronts = {level: self._from_end(end, queue, lane, level, limit) for level in levels}
        return _weighted_sample(fronts, limit) if strategy == "weighted_random" else limits.merged(fronts, order, limit)

    def _fresh_first(self, queue: str, lane: str, limit: int) -> list[QueuedJob]:
        """Jobs never tried, then the others: between lanes, each class is less urgent than the one before."""
        scan_limit = max(_SCAN_LIMIT, limit)
        heads = self._of_class("untried_heads", queue, lane, scan_limit, limit)
        return (
            heads + self._of_class("tried_heads", queue, lane, scan_limit, limit - len(heads))
            if len(heads) < limit
            else heads
        )

    def _of_class(self, name: str, queue: str, lane: str, scan_limit: int, limit: int) -> list[QueuedJob]:
        return _heads.decode(self._tx.fetch(name, queue=queue, lane=lane, looks=scan_limit, limit=limit))

    def _from_end(self, end: str, queue: str, lane: str, priority: int, limit: int) -> list[QueuedJob]:
        return _heads.decode(self._tx.fetch(end, queue=queue, lane=lane, priority=priority, limit=limit))

    # -- afterwards

    def _count_starts(self, queue: str, rules: QueueRules, claims: list[Claim], heads: Mapping[int, QueuedJob]) -> None:
        """Count the started jobs, for later queues and for rates."""
        self._in_queue[queue] += len(claims)
        self._of_task.update(claim.task for claim in claims)
        starts, units = Counter[Limit | None](), Counter[Limit | None]()
        for claim in claims:
            each = (None, *limits.lane_limits_of(heads[claim.ref].lane))
            starts.update(each)
            units.update(dict.fromkeys(each, units_of(claim.options)))
        for lane_limit, number in starts.items():
            if lane_limit is not None:
                self._of_key[lane_limit] += number
            if buckets := self._buckets_of(lane_limit, queue, rules):
                self._rates.spend(buckets, number, units[lane_limit])


def _weighted_sample(fronts: Mapping[int, Sequence[QueuedJob]], limit: int) -> list[QueuedJob]:
    order = limits.drawn({level: len(heads) for level, heads in fronts.items()}, limit, random.random)
    starts_left = {level: iter(sorted(heads, key=_age)) for level, heads in fronts.items()}
    return [next(starts_left[level]) for level in order]


def _age(head: QueuedJob) -> tuple[int, int]:
    return abs(head.rank), head.seq
