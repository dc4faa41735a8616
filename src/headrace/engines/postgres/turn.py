"""What one turn of a worker does in its transaction: note, settle, claim, and whom it concerns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from headrace.core.model import Claim, Exchanged, Lease, Note, Outcome, Want
from headrace.core.states import Event, State
from headrace.engines.postgres.ledger import PostgresLedger
from headrace.engines.postgres.server import Connection
from headrace.engines.relational import reaper
from headrace.engines.relational.ledger import Ledger
from headrace.engines.relational.records import Completion
from headrace.engines.sql import as_json

_names = msgspec.json.Decoder(list[str])
_leases = msgspec.json.Decoder(list[Lease])
_BATCH_OF_TIME = 5000
# The order of a claim, from the least to the most significant: the database returns rows as they lie.
_RANK_AND_SEQ, _PRIORITY = itemgetter(-1, 1), itemgetter(4)


def note(ledger: Ledger, notes: Sequence[Note]) -> None:
    """Store progress and log lines of runs that still hold their lease."""
    progress = {(note.id, note.version): note for note in notes if note.progress is not None}  # the last of each
    if progress:
        ledger.run("note_progress", n=as_json(list(progress.values())))
    if lines := [note for note in notes if note.message is not None]:
        ledger.run("note_logs", n=as_json(lines))


def settle(ledger: Ledger, outcomes: Sequence[Outcome], worker: str | None, now: int) -> list[Outcome]:
    """Settle what is not stale; file and return what is."""
    first, again = _first_and_again(outcomes)
    done = [o for o in first if o.event is Event.SUCCEED]
    applied = _complete(ledger, done) if done else set()
    if len(done) < len(first):
        unusual = [o for o in first if o.event is not Event.SUCCEED]
        applied |= set(_leases.decode(ledger.ask("settle", o=as_json(unusual))))
    if len(applied) == len(outcomes):
        return []
    stale = [*again, *(o for o in first if Lease(o.id, o.version) not in applied)]
    ledger.run("file_stale", o=as_json(stale), now=now, worker=worker)
    return stale


def _first_and_again(outcomes: Sequence[Outcome]) -> tuple[list[Outcome], list[Outcome]]:
    """Those that are the first of their claim, and the rest: a second settle of one claim is stale."""
    first: dict[tuple[str, int], Outcome] = {}
    again = []
    for outcome in outcomes:
        if (outcome.id, outcome.version) in first:
            again.append(outcome)
        else:
            first[outcome.id, outcome.version] = outcome
    return list(first.values()), again


def _complete(ledger: Ledger, outcomes: list[Outcome]) -> set[Lease]:
    done = [Completion(o.id, o.version, o.result, o.result_checksum, o.finished_at) for o in outcomes]
    applied = ledger.ask("complete", o=as_json(done), expected=len(done))
    return {Lease(o.id, o.version) for o in outcomes} if applied is None else set(_leases.decode(applied))


def claim(db: Connection, sql: Mapping[str, str], want: Want, now: int) -> tuple[Exchanged, bool]:
    """What was claimed, and whether jobs lapsed on the way: somebody may be waiting for them."""
    due, lapses, names = _horizon(db, sql)
    queues = tuple(_names.decode(names))
    lapsed = _is_past(lapses, now)
    if lapsed:
        reaper.lapse(PostgresLedger(db, sql), now, _BATCH_OF_TIME)
        due, lapses, _ = _horizon(db, sql)
        if _is_past(lapses, now):  # more than one commit should hold: none of the rest may start, so come again
            return Exchanged([], [], now, queues), True
    if _is_past(due, now):
        db.execute(sql["promote"], {"now": now, "limit": _BATCH_OF_TIME})
        due = _horizon(db, sql)[0]
    return Exchanged([], _take(db, sql["claim"], want, queues, now), due, queues), lapsed


def _horizon(db: Connection, sql: Mapping[str, str]) -> tuple[Any, ...]:
    row = db.execute(sql["horizon"]).fetchone()
    assert row is not None
    return row


def _take(db: Connection, sql: str, want: Want, queues: tuple[str, ...], now: int) -> list[Claim]:
    """First every queue up to its share, then, if room is left, whoever has more."""
    values = {"worker": want.worker, "now": now, "until": now + want.lease}
    quotas = _within(want.limit, [(share.queue, share.quota) for share in want.shares if share.queue in queues])
    claims = _claimed(db, sql, [(queue, quota) for queue, quota in quotas.items() if quota], values)
    counts = Counter([claim.queue for claim in claims])
    for queue in dict.fromkeys((*quotas, *(queues if want.others else ()))):
        room = want.limit - len(claims)
        if room > 0 and counts[queue] == quotas.get(queue, 0):  # not one that gave less than it was asked for
            claims += _claimed(db, sql, [(queue, room)], values)
    return claims


def _claimed(db: Connection, sql: str, shares: list[tuple[str, int]], values: dict[str, Any]) -> list[Claim]:
    if not shares:
        return []
    rows = db.execute(sql, {**values, "shares": as_json(shares)}).fetchall()
    rows.sort(key=_RANK_AND_SEQ)
    rows.sort(key=_PRIORITY, reverse=True)
    if len(shares) > 1:
        turn = {queue: number for number, (queue, _) in enumerate(shares)}
        rows.sort(key=lambda row: turn[row[3]])
    return [Claim(*row[:-1]) for row in rows]


def _within(limit: int, shares: list[tuple[str, int]]) -> dict[str, int]:
    """The shares, cut where they exceed the limit; a queue named twice has both."""
    granted: dict[str, int] = {}
    for queue, quota in shares:
        room = limit - sum(granted.values())
        granted[queue] = granted.get(queue, 0) + max(min(quota, room), 0)
    return granted


def _is_past(moment: int | None, now: int) -> bool:
    return moment is not None and moment <= now


def topics_of(outcomes: Sequence[Outcome], lapsed: bool) -> list[str]:
    """Whom a turn concerns beside its own worker."""
    topics = []
    if lapsed or any(outcome.finished_at is not None for outcome in outcomes):
        topics.append("done")
    if any(outcome.state is State.PENDING for outcome in outcomes):
        topics.append("work")
    return topics
