"""Applies staleness decisions in a SQL database: one commit for a batch, by id and version."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.core.retention.staleness import REASON, StaleAction
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql import dependencies
from headrace.engines.sql.records import DeadLetterInsert, HistoryText
from headrace.engines.sql.transaction import Transaction

_locked = msgspec.json.Decoder(list[tuple[str, int, int]])
_numbers = msgspec.json.Decoder(list[int])


def mark_stale(tx: Transaction, actions: Sequence[StaleAction], now: int) -> tuple[list[bool], dependencies.Wakeups]:
    """For each decision whether it was applied, and the wake-ups."""
    tx.fetch("lock_dependencies")
    tx.run("hold_inserts")  # the store status must not change until they have ended
    if tx.fetch("store_status") is not None:
        return [False] * len(actions), dependencies.Wakeups()
    found = _locked.decode(tx.fetch("lock_stale", ids=as_json([one.id for one in actions])))
    numbers = {(job_id, version): seq for job_id, version, seq in found}
    places: dict[int, int] = {}
    for place, one in enumerate(actions):
        if (seq := numbers.get((one.id, one.version))) is not None:
            places.setdefault(seq, place)
    fresh = {seq: actions[place] for seq, place in places.items()}
    reviewed = _review(tx, {seq: one for seq, one in fresh.items() if one.action == "review"}, now)
    ended = {seq: one for seq, one in fresh.items() if one.action != "review"}
    effects = _fail(tx, ended, now) if ended else dependencies.Wakeups()
    done = {places[seq] for seq in (*reviewed, *ended)}
    return [place in done for place in range(len(actions))], effects


def _review(tx: Transaction, actions: dict[int, StaleAction], now: int) -> list[int]:
    """Once for each version: an unchanged job will be found again and again."""
    fresh = _numbers.decode(tx.fetch("unreviewed", seqs=as_json(list(actions)))) if actions else []
    if fresh:
        tx.run("record_reviews", t=as_json([HistoryText(seq, actions[seq].detail) for seq in fresh]), now=now)
    return fresh


def _fail(tx: Transaction, actions: dict[int, StaleAction], now: int) -> dependencies.Wakeups:
    seqs = list(actions)
    tx.run("record_marked", t=as_json([HistoryText(seq, one.detail) for seq, one in actions.items()]), now=now)
    dead_letter_inserts = [
        DeadLetterInsert(seq, REASON, "StaleJob", one.detail, one.fingerprint)
        for seq, one in actions.items()
        if one.action == "dead"
    ]
    if dead_letter_inserts:
        tx.run("add_dead_letters", b=as_json(dead_letter_inserts), now=now)
    tx.run("move_stale", seqs=as_json(seqs), now=now, reason=REASON)
    effects = dependencies.propagate_failures(tx, seqs, now)
    effects.done = effects.work = True  # a slot of a limit may be free
    return effects
