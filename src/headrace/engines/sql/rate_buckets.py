"""The buckets of rates in one claim: how much each allows, what its jobs take, and when the next one may start."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace.core.jobs.queue_rules import Rate, queue_rules, task_rules
from headrace.core.jobs.records import Outcome
from headrace.core.queues import rates
from headrace.core.queues.limits import lane_limits_of
from headrace.engines.shared.damaged_records import Rows
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.transaction import Transaction

_buckets = msgspec.json.Decoder(list[tuple[str, int]])
_CLEANUP_PROBABILITY = 0.01
_MINUTE = 60_000_000  # allows for clock differences


class _ChargedJob(Struct, array_like=True):
    """A running job, and the rules under which it was charged."""

    id: str
    queue: str
    task: str
    lane: str
    options: str | None
    started_at: int | None
    queue_rules: str | None
    task_rules: str | None


_charged = Rows(_ChargedJob)


class Bucket(NamedTuple):
    """A window of an owner's rate, and its name in the store."""

    name: str
    window: Rate


def buckets_of(rate: Rate | None, *owner: str) -> list[Bucket]:
    """The buckets of a rate. A name includes the rate: tokens spent under a slow rate must not block a faster one."""
    return [Bucket(_name_of(window, owner), window) for window in rate.windows] if rate is not None else []


def _name_of(window: Rate, owner: Sequence[str]) -> str:
    parts = [*owner, window.every, window.burst]
    if window.period or window.units:
        parts += [window.period, window.units]
    return as_json(parts)


def charge_used_units(tx: Transaction, outcomes: Sequence[Outcome], now: int) -> None:
    """Charge running jobs the units that they have used, before their outcomes settle. Refused ones change nothing.

    It waits for claims under limits, as they wait for each other.
    """
    used = {outcome.id: outcome for outcome in outcomes if outcome.units is not None}
    if not used:
        return
    tx.fetch("lock_claims")
    buckets = RateBuckets(tx, now, lambda moment: None)
    leases = as_json([outcome.lease for outcome in used.values()])
    for job in _charged.decode(tx.fetch("charged", lease=leases)):
        of_queue, of_task = queue_rules(job.queue_rules), task_rules(job.task_rules or "{}")
        owned = [*buckets_of(of_queue.rate, "queue", job.queue), *buckets_of(of_task.rate, "task", job.task)]
        for lane_limit in lane_limits_of(job.lane):
            if lane_limit.kind == "rate":
                owned += buckets_of(of_queue.rate_of_key(lane_limit.name), "key", job.queue, lane_limit.name)
        counting = [bucket for bucket in owned if bucket.window.units]
        buckets.correct(counting, rates.units_of(job.options), used[job.id].units or 0, job.started_at or now)
    buckets.store()


class RateBuckets:
    """The buckets that one transaction has read and changed. `claim_again_at` gets the times of later starts, in ms."""

    def __init__(self, tx: Transaction, now: int, claim_again_at: Callable[[int], None]) -> None:
        self._tx = tx
        self._now = 1000 * now
        self._claim_again_at = claim_again_at
        self._full_at: dict[str, int] = {}
        self._planned: dict[str, int] = {}  # with the units of chosen jobs
        self._closed: set[str] = set()  # a job waits for its units, and none of this claim overtakes it
        self._changed: set[str] = set()

    def capacity(self, buckets: Sequence[Bucket]) -> int:
        """How many jobs may start by these buckets; if none, sets the time of the next one."""
        self.load(buckets)
        least = min(rates.allows(bucket.window, self._full_at[bucket.name], self._now) for bucket in buckets)
        if not least:
            self._wait_for(buckets)
        return least

    def reserve(self, buckets: Sequence[Bucket], units: int) -> bool:
        """Whether buckets of units have room for a job of so many; if so, later jobs of this claim find less."""
        self.load(buckets)
        planned = {bucket.name: self._planned.get(bucket.name, self._full_at[bucket.name]) for bucket in buckets}
        full = [one for one in buckets if not rates.has_room(one.window, planned[one.name], self._now, units)]
        if full or any(bucket.name in self._closed for bucket in buckets):
            self._closed.update(bucket.name for bucket in full)
            for bucket in full:
                self._claim_again_at(_in_ms(rates.opens_at(bucket.window, planned[bucket.name], units)))
            return False
        for bucket in buckets:
            self._planned[bucket.name] = rates.spent(bucket.window, planned[bucket.name], self._now, units)
        return True

    def spend(self, buckets: Sequence[Bucket], starts: int, units: int) -> None:
        """Take tokens for jobs that start: as many as they are, or as they have units."""
        self.load(buckets)
        for bucket in buckets:
            taken = units if bucket.window.units else starts
            self._change(bucket, rates.spent(bucket.window, self._full_at[bucket.name], self._now, taken))
        if not all(rates.allows(bucket.window, self._full_at[bucket.name], self._now) for bucket in buckets):
            self._wait_for(buckets)

    def correct(self, buckets: Sequence[Bucket], charged: int, used: int, started_at: int) -> None:
        """Charge a job what it used, where it was charged something else when it started."""
        self.load(buckets)
        for bucket in buckets:
            full_at = rates.corrected(
                bucket.window, self._full_at[bucket.name], self._now, charged, used, 1000 * started_at
            )
            self._change(bucket, full_at)

    def store(self) -> None:
        """Write what has changed."""
        if self._changed:
            self._tx.run("spend", b=as_json([(name, self._full_at[name]) for name in sorted(self._changed)]))
            if random.random() < _CLEANUP_PROBABILITY:  # a bucket that is full again can be deleted
                self._tx.run("drop_buckets", now=self._now - _MINUTE)

    def load(self, buckets: Iterable[Bucket]) -> None:
        """Read these buckets at once: a thousand keys would be a thousand round trips."""
        missing = {bucket.name: bucket for bucket in buckets if bucket.name not in self._full_at}
        if not missing:
            return
        found = dict(_buckets.decode(self._tx.fetch("rate_buckets", names=as_json(list(missing)))))
        for name, bucket in missing.items():
            stored = found.get(name, 0)
            self._full_at[name] = rates.plausible(bucket.window, stored, self._now)
            if self._full_at[name] != stored:
                self._changed.add(name)

    def _change(self, bucket: Bucket, full_at: int) -> None:
        self._full_at[bucket.name] = full_at
        self._changed.add(bucket.name)

    def _wait_for(self, buckets: Iterable[Bucket]) -> None:
        """Claim again when all of these have room."""
        full = [one for one in buckets if not rates.allows(one.window, self._full_at[one.name], self._now)]
        self._claim_again_at(max(_in_ms(rates.opens_at(one.window, self._full_at[one.name])) for one in full))


def _in_ms(moment: int) -> int:
    return -(-moment // 1000)
