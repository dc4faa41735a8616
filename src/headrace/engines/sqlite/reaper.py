"""What time does to jobs in the store: leases that ran out, workers that died, jobs that expired unstarted."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

import msgspec

from headrace.core.model import Reaped
from headrace.core.states import Event, State
from headrace.engines.sql import as_json
from headrace.engines.sqlite.statements import SQL
from headrace.engines.sqlite.store import Store, scalar

_overdue = msgspec.json.Decoder(list[tuple[int, str, int]])
_reaped = msgspec.json.Decoder(list[Reaped])


def reap(store: Store, dead: Mapping[str, set[int]], limit: int, now: int) -> list[Reaped]:
    """Take overdue jobs away; what a dead worker had not begun is released, its attempt given back."""
    question = {"now": now, "dead": as_json(list(dead)), "limit": limit}
    with store.reading() as db:
        if not dead and not _overdue.decode(scalar(db, SQL["overdue"], question)):
            return []  # the usual case needs no turn at the write lock
    with store.writing() as db:
        rows = _overdue.decode(scalar(db, SQL["overdue"], question))
        released, again, failed = _sort(rows, dead)
        _release(db, released, now)
        _expire(db, again, State.PENDING, now)
        _expire(db, failed, State.FAILED, now)
        if len(rows) < limit:
            db.execute(SQL["sign_off"], {"ids": as_json(list(dead))})
        return _answer(db, rows)


def _sort(rows: list[tuple[int, str, int]], dead: Mapping[str, set[int]]) -> tuple[list[int], list[int], list[int]]:
    released, again, failed = [], [], []
    for seq, worker, has_attempts in rows:
        if worker in dead and seq not in dead[worker]:
            released.append(seq)
        elif has_attempts:
            again.append(seq)
        else:
            failed.append(seq)
    return released, again, failed


def _expire(db: sqlite3.Connection, seqs: list[int], target: State, now: int) -> None:
    if not seqs:
        return
    lost = {"seqs": as_json(seqs), "target": target, "now": now}
    final = target is State.FAILED
    db.execute(SQL["file_lost"], {**lost, "detail": "attempts used up" if final else "recovered"})
    if final:
        db.execute(SQL["bury_lost"], lost)
    db.execute(SQL["expire"], {**lost, "reason": "worker_lost" if final else None})


def _release(db: sqlite3.Connection, seqs: list[int], now: int) -> None:
    if seqs:
        file_moves(db, seqs, Event.RELEASE, State.PENDING, "its worker died before it began", now)
        db.execute(SQL["release"], {"seqs": as_json(seqs)})


def _answer(db: sqlite3.Connection, rows: list[tuple[int, str, int]]) -> list[Reaped]:
    by_worker: dict[str, list[int]] = {}
    for seq, worker, _ in rows:
        by_worker.setdefault(worker, []).append(seq)
    return [
        reaped
        for worker, seqs in by_worker.items()
        for reaped in _reaped.decode(scalar(db, SQL["reaped"], {"worker": worker, "seqs": as_json(seqs)}))
    ]


def lapse(db: sqlite3.Connection, now: int, limit: int) -> None:
    """Cancel jobs whose `expires` passed before they started."""
    seqs = msgspec.json.decode(scalar(db, SQL["lapsed"], {"now": now, "limit": limit}), type=list[int])
    file_moves(db, seqs, Event.LAPSE, State.CANCELLED, "expired before it started", now)
    db.execute(SQL["move_cancel"], {"seqs": as_json(seqs), "now": now, "reason": "expired"})


def file_moves(
    db: sqlite3.Connection, seqs: list[int], event: Event, target: str, detail: str | None, now: int
) -> None:
    """File where these jobs come from, before they are moved."""
    moved = {"seqs": as_json(seqs), "event": event, "target": target, "detail": detail, "now": now}
    db.execute(SQL["file_moves"], moved)
