"""What time does to jobs in the store: leases that ran out, workers that died, jobs that expired unstarted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace.core.fingerprint import fingerprint_of_lost
from headrace.core.model import Lease, Reaped
from headrace.core.states import Event, State
from headrace.engines import presence
from headrace.engines.relational import kinship
from headrace.engines.relational.ledger import Ledger, Office
from headrace.engines.sql import as_json

_overdue = msgspec.json.Decoder(list[tuple[int, str, bool]])
_reaped = msgspec.json.Decoder(list[Reaped])
_numbers = msgspec.json.Decoder(list[int])
_names = msgspec.json.Decoder(list[str])


def reap(office: Office, folder: Path, limit: int, now: int) -> list[Reaped]:
    """Take overdue jobs away, also from workers whose death shows in the folder; ring for whom that concerns."""
    dead = presence.find_dead(folder)
    reaped, effects = _reap(office, dead, limit, now)
    if len(reaped) < limit:
        for worker_id in dead:
            presence.bury(folder, worker_id)
    effects.work |= any(job.state is State.PENDING for job in reaped)
    effects.done |= any(job.state is State.FAILED for job in reaped)
    effects.ring(office.ring)
    return reaped


def _reap(office: Office, dead: Mapping[str, set[int]], limit: int, now: int) -> tuple[list[Reaped], kinship.Effects]:
    """What a dead worker had not begun is released, its attempt given back."""
    question: dict[str, Any] = {"now": now, "dead": as_json(list(dead)), "limit": limit}

    def take_away(ledger: Ledger) -> tuple[list[Reaped], kinship.Effects]:
        ledger.ask("alone_with_kin")
        rows = _overdue.decode(ledger.ask("lock_overdue", **question))
        released, again, failed = _sort(rows, dead)
        _release(ledger, released, "its worker died before it began", now)
        _expire(ledger, again, State.PENDING, now)
        _expire(ledger, failed, State.FAILED, now)
        if len(rows) < limit:
            ledger.run("sign_off", ids=as_json(list(dead)))
        return _answer(ledger, rows), kinship.follow_lost(ledger, failed, now)

    # The usual case needs no turn to write.
    if not dead and not _overdue.decode(office.read(lambda ledger: ledger.ask("overdue", **question))):
        return [], kinship.Effects()
    return office.write(take_away)


def disown(office: Office, worker: str, held: Sequence[Lease], now: int) -> list[str]:
    """Release what runs under the worker beyond what it holds, and ring for it."""

    def give_back(ledger: Ledger) -> list[str]:
        seqs = _numbers.decode(ledger.ask("lock_disowned", worker=worker, lease=as_json(held)))
        _release(ledger, seqs, "its claim never reached the worker", now)
        return _names.decode(ledger.ask("ids_of", seqs=as_json(seqs)))

    given_back = office.write(give_back)
    if given_back:
        office.ring("work")
    return given_back


def _sort(rows: list[tuple[int, str, bool]], dead: Mapping[str, set[int]]) -> tuple[list[int], list[int], list[int]]:
    released, again, failed = [], [], []
    for seq, worker, has_attempts in rows:
        if worker in dead and seq not in dead[worker]:
            released.append(seq)
        elif has_attempts:
            again.append(seq)
        else:
            failed.append(seq)
    return released, again, failed


def _expire(ledger: Ledger, seqs: list[int], target: State, now: int) -> None:
    if not seqs:
        return
    lost: dict[str, Any] = {"seqs": as_json(seqs), "now": now}
    final = target is State.FAILED
    ledger.run("file_lost", **lost, target=target.value, detail="attempts used up" if final else "recovered")
    if final:
        tasks = _names.decode(ledger.ask("tasks_of", seqs=as_json(seqs)))
        ledger.run("bury_lost", **lost, prints=as_json({task: fingerprint_of_lost(task) for task in tasks}))
    ledger.run("expire", **lost, target=target.value, reason="worker_lost" if final else None)


def _release(ledger: Ledger, seqs: list[int], detail: str, now: int) -> None:
    if seqs:
        file_moves(ledger, seqs, Event.RELEASE, State.PENDING, detail, now)
        ledger.run("release", seqs=as_json(seqs))


def _answer(ledger: Ledger, rows: list[tuple[int, str, bool]]) -> list[Reaped]:
    by_worker: dict[str, list[int]] = {}
    for seq, worker, _ in rows:
        by_worker.setdefault(worker, []).append(seq)
    return [
        reaped
        for worker, seqs in by_worker.items()
        for reaped in _reaped.decode(ledger.ask("reaped", worker=worker, seqs=as_json(seqs)))
    ]


def lapse(ledger: Ledger, now: int, limit: int) -> tuple[int, kinship.Effects]:
    """Cancel jobs whose `expires` passed before they started; how many, and whom it concerns."""
    seqs = _numbers.decode(ledger.ask("lock_lapsed", now=now, limit=limit))
    if not seqs:
        return 0, kinship.Effects()
    file_moves(ledger, seqs, Event.LAPSE, State.CANCELLED, "expired before it started", now)
    ledger.run("move_cancel", seqs=as_json(seqs), now=now, reason="expired")
    effects = kinship.follow_lost(ledger, seqs, now)
    effects.done = True
    return len(seqs), effects


def file_moves(ledger: Ledger, seqs: list[int], event: Event, target: State, detail: str | None, now: int) -> None:
    """File where these jobs come from, before they are moved."""
    ledger.run("file_moves", seqs=as_json(seqs), event=event.value, target=target.value, detail=detail, now=now)
