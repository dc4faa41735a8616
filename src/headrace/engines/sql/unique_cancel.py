"""Ends the started jobs of a key for the newest call, in the commit that inserts it; steps like other unique inserts.

A running job is only asked to stop: it stays running, under the next version, until its worker has settled that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from headrace.core.jobs.history_texts import (
    CANCELLED_BY_CALL,
    CANCELS_RUNNING,
    CANCELS_STARTED,
    is_cancel_request,
)
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.unique_rules import InsertResult, UniqueInsert
from headrace.engines.shared.sql_files import as_json
from headrace.engines.sql.dependencies import Wakeups, propagate
from headrace.engines.sql.unique_insert import Fetch, Steps


class OpenJob(NamedTuple):
    """An unfinished job with a unique key."""

    unique_key: str
    seq: int
    id: str
    state: State
    reason: str | None


_open_jobs = msgspec.json.Decoder(list[OpenJob])
_numbers = msgspec.json.Decoder(list[int])


def lock_open(candidates: Sequence[UniqueInsert]) -> Steps[list[OpenJob]]:
    """The open jobs whose keys have a new call that cancels them, locked: none of them moves until this is stored."""
    keys = sorted({c.job.unique_key for c in candidates if c.rule is not None and c.rule.cancels and c.job.unique_key})
    if not keys:
        return []
    yield Fetch("lock_dependencies", {})
    yield Fetch("lock_keys", {"keys": as_json(keys)})
    return _open_jobs.decode((yield Fetch("lock_open_of_keys", {"keys": as_json(keys)})))


def cancel_started(
    open_jobs: Sequence[OpenJob], candidates: Sequence[UniqueInsert], results: Sequence[InsertResult], now: int
) -> Steps[Wakeups]:
    """Cancel those of these jobs that have started, for the new jobs that were inserted or replaced a waiting one."""
    effects = Wakeups()
    if not open_jobs:
        return effects
    seqs = as_json([job.seq for job in open_jobs])
    unstarted = set(_numbers.decode((yield Fetch("lock_unstarted", {"seqs": seqs}))))
    newest = {
        candidate.job.unique_key: result.id
        for candidate, result in zip(candidates, results, strict=True)
        if candidate.rule is not None and candidate.rule.cancels and result.kind in ("new", "replaced")
    }
    for job in open_jobs:
        if job.seq in unstarted or job.unique_key not in newest or is_cancel_request(job.reason):
            continue
        effects.add((yield from _cancel(job, newest[job.unique_key], now)))
    return effects


def _cancel(job: OpenJob, by: str, now: int) -> Steps[Wakeups]:
    runs = job.state is State.RUNNING
    event, target = (Trigger.CANCEL_REQUEST, State.RUNNING) if runs else (Trigger.CANCEL, State.CANCELLED)
    reason, one = CANCELLED_BY_CALL % by, as_json([job.seq])
    yield Fetch(
        "record_changes", {"seqs": one, "event": event.value, "target": target.value, "detail": reason, "now": now}
    )
    yield Fetch("request_cancel" if runs else "cancel", {"seqs": one, "reason": reason, "now": now})
    detail = (CANCELS_RUNNING if runs else CANCELS_STARTED) % job.id
    yield Fetch("record_superseded", {"id": by, "detail": detail, "now": now})
    effects = Wakeups(commands=runs, done=not runs)
    if not runs:
        effects.add((yield from propagate([], [job.seq], now)))
    return effects
