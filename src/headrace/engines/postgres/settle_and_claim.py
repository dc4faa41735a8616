"""One exchange of a worker in its transaction: note, settle, claim, and the topics to ring."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from headrace.core.events.log import EventGroup, completions_of, narrowed, page
from headrace.core.jobs.outcomes import starts_again
from headrace.core.jobs.records import Claim, ClaimRequest, JobNote, Lease, Outcome
from headrace.core.jobs.states import Trigger
from headrace.engines.postgres.connections import Connection
from headrace.engines.postgres.transaction import event_params
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies, events, steps
from headrace.engines.sql.dependencies import Wakeups
from headrace.engines.sql.limited_claim import LOCKED, LimitedClaim, RulesSnapshot, earlier, rules_snapshot_of
from headrace.engines.sql.records import Completion
from headrace.engines.sql.transaction import Transaction

_settings = msgspec.json.Decoder(
    tuple[bool, list[tuple[str, bool, bool, bool, str | None]] | None, list[tuple[str, str]] | None]
)
_completed = msgspec.json.Decoder(tuple[list[Lease] | None, list[int] | None, bool])
_leases = msgspec.json.Decoder(list[Lease])
_unknown = msgspec.json.Decoder(list[tuple[str, str]])
DUE_BATCH_SIZE = 5000
SUCCEED = Trigger.SUCCEED  # reading a member of an enum takes longer than comparing with it
_RETRY_DUE_MS = 200
# The order of a claim, from the least to the most significant key: the database returns rows unsorted.
_RANK_AND_SEQ, _PRIORITY, _QUEUE = itemgetter(-1, 5), itemgetter(8), itemgetter(7)
_ID = 4
_BY_ID = attrgetter("id")
R = TypeVar("R", JobNote, Outcome)


def in_order(records: Iterable[R]) -> list[R]:
    """Sort by id, nearly the order of age, so that all writers lock rows in one order and cannot deadlock.

    A batch is looked up, and so locked, in the given order. An operator may cancel many of these jobs meanwhile.
    """
    return sorted(records, key=_BY_ID)


def note(tx: Transaction, notes: Sequence[JobNote]) -> None:
    """Store progress and log lines of runs that still hold their lease."""
    progress = {(note.id, note.version): note for note in notes if note.progress is not None}  # the last of each
    if progress:
        tx.run("note_progress", n=as_json(in_order(progress.values())))
    if lines := [note for note in notes if note.message is not None]:
        tx.run("note_logs", n=as_json(lines))


class SettleContext(NamedTuple):
    """What a settle needs beside its outcomes: where to ring, the events to store with it, and the numbers of jobs, as
    far as they are known."""

    channel: str
    groups: Sequence[EventGroup]
    numbers: Mapping[str, int]


class SettleResult(NamedTuple):
    """The stale outcomes, the topics to ring, whether any job had dependencies, and whether any success has to wait
    for open children."""

    refused: list[Outcome]
    effects: Wakeups
    had_dependencies: bool = False
    some_wait: bool = False


def complete(tx: Transaction, outcomes: Sequence[Outcome], context: SettleContext) -> tuple[list[Outcome], Wakeups]:
    """Settle plain successes with their events in one statement; the rest is stale or has dependencies."""
    first, again = _first_and_again(outcomes)
    done = [o for o in first if not o.spawned]
    if not done and context.groups:
        events.append_events(tx, page(narrowed(context.groups, ())))
    if not done:
        return [*first, *again], Wakeups()
    left, _, frees = _complete(tx, done, context, 0, len(outcomes))
    if len(done) < len(first):
        left += [o for o in first if o.spawned]
    return left + again, Wakeups(work=frees)


def settle(
    tx: Transaction, outcomes: Sequence[Outcome], worker: str | None, context: SettleContext, now: int
) -> SettleResult:
    """Settle current outcomes; record and report the stale ones."""
    first, again = _first_and_again(outcomes)
    left, effects = complete(tx, [o for o in first if o.event is SUCCEED], context)
    if others := [o for o in first if o.event is not SUCCEED]:
        left += _without(_settle(tx, others, context.channel, 0), others)
    left += again
    if not left:
        return SettleResult([], effects)
    rest = settle_with_dependencies(tx, left, worker, context, now)
    rest.effects.add(effects)
    return rest


def settle_optimistic(
    tx: Transaction, outcomes: Sequence[Outcome], worker: str | None, context: SettleContext, now: int
) -> SettleResult:
    """`settle` for successes of which most have dependencies: one statement first, then their dependents.

    Raises MustWaitForChildren, after which nothing may be committed, if one of them has open children.
    """
    first, again = _first_and_again(outcomes)
    left, linked, frees = _complete(tx, first, context, 1, len(outcomes))
    effects = dependencies.propagate_completed(tx, linked, now) if linked else Wakeups()
    effects.work |= frees
    if topics := effects.topics():
        tx.run("ring", messages=as_json(topics), channel=context.channel)
    left += again
    if not left:
        return SettleResult([], effects, bool(linked))
    rest = settle_with_dependencies(tx, left, worker, context, now)
    rest.effects.add(effects)
    return rest._replace(had_dependencies=bool(linked))


def settle_with_dependencies(
    tx: Transaction, left: Sequence[Outcome], worker: str | None, context: SettleContext, now: int
) -> SettleResult:
    """Settle the outcomes of jobs with dependencies, with their dependents. The rest is stale: record and report it."""
    writer = _PostgresSettleWriter(tx, context)
    settled = dependencies.settle(tx, left, writer, now)
    settled.effects.work |= writer.frees
    if topics := settled.effects.topics():
        tx.run("ring", messages=as_json(topics), channel=context.channel)
    stale = [outcome for place, outcome in enumerate(left) if place not in settled.places]
    if stale:
        tx.run("record_stale", o=as_json(stale), now=now, worker=worker)
    return SettleResult(stale, settled.effects, bool(settled.places), settled.some_wait)


class _PostgresSettleWriter:
    """Settles jobs with dependencies."""

    def __init__(self, tx: Transaction, context: SettleContext) -> None:
        self._tx = tx
        self._context = context
        self.frees = False  # a slot for another worker's job

    def complete(self, outcomes: list[Outcome]) -> None:
        ended = completions_of(self._context.groups, {outcome.id for outcome in outcomes})
        *_, frees = _complete(self._tx, outcomes, self._context._replace(groups=ended), 1, len(outcomes))
        self.frees |= frees

    def settle(self, outcomes: list[Outcome]) -> None:
        _settle(self._tx, outcomes, self._context.channel, 1)
        # The success of a job with open children ends its run, though not the job.
        self.frees |= any(outcome.event is SUCCEED for outcome in outcomes)


def _without(applied: set[Lease], outcomes: Sequence[Outcome]) -> list[Outcome]:
    return [outcome for outcome in outcomes if Lease(outcome.id, outcome.version) not in applied]


def _settle(tx: Transaction, outcomes: Sequence[Outcome], channel: str, with_dependencies: int) -> set[Lease]:
    batch = as_json(in_order(outcomes))
    applied = set(_leases.decode(tx.fetch("settle", o=batch, with_dependencies=with_dependencies)))
    steps.wake_if_come(tx, outcomes)
    if topics := topics_of(outcomes):
        tx.run("ring", messages=as_json(topics), channel=channel)
    return applied


def _first_and_again(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """The first outcome of each claim, and the rest: a second one of one claim is stale."""
    first: dict[tuple[str, int], Outcome] = {}
    again = []
    for outcome in outcomes:
        if (outcome.id, outcome.version) in first:
            again.append(outcome)
        else:
            first[outcome.id, outcome.version] = outcome
    return list(first.values()), again


def _complete(
    tx: Transaction, outcomes: list[Outcome], context: SettleContext, with_dependencies: int, completions: int
) -> tuple[list[Outcome], list[int], bool]:
    """The outcomes that did not apply, the numbers of jobs with dependencies, and whether a slot of a limit became
    free."""
    number_of = context.numbers.get
    done = [
        Completion(o.id, o.version, o.result, o.result_checksum, o.finished_at, number_of(o.id))
        for o in in_order(outcomes)
    ]
    batch = event_params(page(context.groups) if context.groups else None)
    answer = tx.fetch(
        "complete",
        o=as_json(done),
        expected=len(done),
        channel=context.channel,
        with_dependencies=with_dependencies,
        completions=completions,
        **batch,
    )
    applied, seqs, frees = _completed.decode(answer)
    return [] if applied is None else _without(set(applied), outcomes), seqs or [], frees


class ClaimResult(NamedTuple):
    """The claims, and what the claim saw: when the next job is due, when one expires, the open queues (as keys: there
    may be thousands), the rules, the queues without pending jobs, and those with a job of an unknown task."""

    claims: list[Claim]
    due: int | None
    next_expiry: int | None
    queues: Mapping[str, None]
    snapshot: RulesSnapshot
    idle: frozenset[str]
    unknown: frozenset[str] = frozenset()

    def needs_limits(self, queue: str, want: ClaimRequest) -> bool:
        """Whether the queue has jobs that only `claim_limited` may claim."""
        if queue not in self.queues or queue in self.idle:
            return False
        return queue in self.unknown or self.snapshot.needs_limits(queue, want)


def claim(
    db: Connection, sql: Mapping[str, str], channel: str, want: ClaimRequest, now: int, *, after_expiry: bool = False
) -> ClaimResult:
    """Claim jobs, after promoting the due ones; nothing while an expired job still waits.

    After the expired jobs were cancelled, only these themselves are skipped: other transactions may have them locked.
    Queues with limits are left to `claim_limited`, and their capacity is reserved.
    """
    values = {"worker": want.worker, "now": now, "until": now + want.lease, "unless_due": now}
    values["unless_expired"] = -1 if after_expiry else now
    quotas = _within(want.limit, [(share.queue, share.quota) for share in want.shares])
    is_plain_order = want.strategy in (None, "priority")
    shares = [(queue, quota) for queue, quota in quotas.items() if quota and is_plain_order]
    taken = _claimed(db, sql["claim"], want, shares, values, want.limit)
    if is_past(taken.next_expiry, now) and not after_expiry:
        return taken
    if is_past(taken.due, now):
        promoted = db.execute(sql["promote"], {"now": now, "limit": DUE_BATCH_SIZE, "channel": channel}).rowcount
        values["unless_due"] = -1  # there may be more; later exchanges promote the rest
        taken = _claimed(db, sql["claim"], want, shares, values, want.limit)
        if promoted < DUE_BATCH_SIZE and is_past(taken.due, now):  # others hold the rest
            taken = taken._replace(due=now + _RETRY_DUE_MS)
    reserved = sum(quota for queue, quota in quotas.items() if taken.needs_limits(queue, want))
    taken = _with_more(db, sql["claim"], want, taken, values, reserved)
    return taken._replace(due=earlier(taken.due, now + LOCKED)) if _skipped_locked(want, taken) else taken


def _skipped_locked(want: ClaimRequest, taken: ClaimResult) -> bool:
    """Whether a queue has jobs and gave none, though no limit forbids it: others have locked them."""
    served = taken.queues if want.others else [share.queue for share in want.shares]
    gave = {claim.queue for claim in taken.claims}
    return len(taken.claims) < want.limit and any(
        queue in taken.queues and queue not in taken.idle and queue not in gave and not taken.needs_limits(queue, want)
        for queue in served
    )


def claim_remaining(
    db: Connection, sql: Mapping[str, str], want: ClaimRequest, taken: ClaimResult, now: int
) -> ClaimResult:
    """Give the capacity that queues with limits could not use to the others."""
    values = {"worker": want.worker, "now": now, "until": now + want.lease, "unless_due": -1}
    values["unless_expired"] = -1
    return _with_more(db, sql["claim"], want, taken._replace(claims=[*taken.claims]), values, 0)


def _with_more(
    db: Connection, sql: str, want: ClaimRequest, taken: ClaimResult, values: dict[str, Any], reserved: int
) -> ClaimResult:
    """If capacity is left, claim from queues that have more than their share."""
    claims = taken.claims
    quotas = _within(want.limit, [(share.queue, share.quota) for share in want.shares])
    counts = Counter([claim.queue for claim in claims])
    have_more = (
        queue
        for queue in dict.fromkeys((*quotas, *(taken.queues if want.others else ())))
        if queue in taken.queues
        and queue not in taken.idle
        and queue not in taken.unknown
        # Not from a queue that gave less than its quota.
        and counts[queue] >= quotas.get(queue, 0)
        and not taken.snapshot.needs_limits(queue, want)
    )
    # Each of them has a job, so as many queues as slots mostly suffice; each claim reads all queues of the store.
    while (free_slots := want.limit - reserved - len(claims)) > 0 and (next_ones := [*islice(have_more, free_slots)]):
        more = _claimed(db, sql, want, [(queue, free_slots) for queue in next_ones], values, free_slots)
        claims += more.claims
        taken = taken._replace(unknown=taken.unknown | more.unknown)
    return taken


def claim_limited(
    tx: Transaction, want: ClaimRequest, taken: ClaimResult, cursors: dict[str, str], now: int
) -> ClaimResult:
    """Add claims from the queues with limits: each up to its share, then from any that has more."""
    quotas = dict(_within(want.limit, [(share.queue, share.quota) for share in want.shares]))
    queues = dict.fromkeys((*quotas, *(taken.queues if want.others else ())))
    limited_queues = [queue for queue in queues if taken.needs_limits(queue, want)]
    claims, limited_claim = taken.claims, LimitedClaim(tx, taken.snapshot, want, cursors, now)
    left = set(limited_queues)
    for queue, quota in (
        *((queue, quotas.get(queue, 0)) for queue in limited_queues),
        *((q, want.limit) for q in limited_queues),
    ):
        free_slots = min(quota, want.limit - len(claims))
        if free_slots > 0 and queue in left:
            found = limited_claim.claim(queue, free_slots)
            claims += found
            if len(found) < free_slots:
                left.discard(queue)
    limited_claim.store_rates()
    return taken._replace(due=earlier(taken.due, limited_claim.next_at))


def needs_limits(want: ClaimRequest, taken: ClaimResult) -> bool:
    """Whether there is capacity, and a queue that only `claim_limited` may claim from."""
    served = taken.queues if want.others else [share.queue for share in want.shares]
    return len(taken.claims) < want.limit and any(taken.needs_limits(queue, want) for queue in served)


def _claimed(
    db: Connection, sql: str, want: ClaimRequest, shares: list[tuple[str, int]], values: dict[str, Any], limit: int
) -> ClaimResult:
    """Claim from the front of each queue, one after the other up to the limit, except where a job's task is unknown to
    the worker."""
    unknown: set[str] = set()
    while True:
        shares = [(queue, quota) for queue, quota in shares if queue not in unknown]
        known_tasks = None if want.known is None else want.known.known_names
        params = {**values, "shares": as_json(shares), "known_tasks": known_tasks, "limit": limit}
        (settings, due, next_expiry, unknown_text, *_), *rows = db.cursor(binary=True).execute(sql, params).fetchall()
        if unknown_text is None or want.known is None:
            break
        unknown |= {queue for queue, task in _unknown.decode(unknown_text) if task not in want.known}
        if unknown.issuperset(queue for queue, _ in shares):
            break
    is_open, queues, snapshot, idle = _settings_in(settings)
    if not is_open:  # a store status is set: dependents may not have arrived yet, so nothing expires or is promoted
        due = next_expiry = None
    preamble = (due, next_expiry, queues, snapshot, idle, frozenset(unknown))
    rows.sort(key=_RANK_AND_SEQ)
    rows.sort(key=_PRIORITY, reverse=True)
    if len(shares) > 1:
        position = {queue: number for number, (queue, _) in enumerate(shares)}
        rows.sort(key=lambda row: position[_QUEUE(row)])
    return ClaimResult([Claim(*row[_ID:-1]) for row in rows], *preamble)


@functools.lru_cache(maxsize=16)
def _settings_in(text: str) -> tuple[bool, Mapping[str, None], RulesSnapshot, frozenset[str]]:
    """Whether no store status is set, the open queues, the rules, and the idle queues: nearly always as before."""
    is_open, known, tasks = _settings.decode(text)
    queues = known or []
    ruled = [(name, rules) for name, _, _, _, rules in queues if rules is not None]
    snapshot = rules_snapshot_of(ruled, [name for name, _, laned, _, _ in queues if laned], tasks or [])
    idle = frozenset(name for name, _, _, is_idle, _ in queues if is_idle)
    return is_open, dict.fromkeys(name for name, paused, *_ in queues if is_open and not paused), snapshot, idle


def _within(limit: int, shares: list[tuple[str, int]]) -> dict[str, int]:
    """The shares, cut where they exceed the limit; a queue named twice has both."""
    granted: dict[str, int] = {}
    free_slots = limit
    for queue, quota in shares:
        fits = max(min(quota, free_slots), 0)
        granted[queue] = granted.get(queue, 0) + fits
        free_slots -= fits
    return granted


def is_plain(outcome: Outcome) -> bool:
    """Whether it is a success without spawned jobs."""
    return outcome.event is SUCCEED and not outcome.spawned


def is_past(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now


def topics_of(outcomes: Sequence[Outcome]) -> list[str]:
    """The topics to ring for these outcomes."""
    topics = []
    if any(outcome.finished_at is not None for outcome in outcomes):
        topics.append("done")
    if any(map(starts_again, outcomes)):
        topics.append("work")
    return topics
