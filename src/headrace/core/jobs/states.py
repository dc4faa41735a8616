"""The states of a job: every state, every event, and the legal transitions.

Engines only execute rows of TRANSITIONS; nothing else decides what is legal. The diagram in the docs is generated from
the table (`python -m headrace.core.jobs.states` prints it).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple


class State(StrEnum):
    """The state of a job. A state equals its own text: `job.state == "completed"`."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    PENDING = "pending"
    RUNNING = "running"
    RETRYING = "retrying"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Trigger(StrEnum):
    """An event in a job's life. An event equals its own text: `entry.event == "claim"`."""

    SUBMIT = "submit"
    PROMOTE = "promote"
    UNBLOCK = "unblock"
    CLAIM = "claim"
    SUCCEED = "succeed"
    RETRY = "retry"
    SNOOZE = "snooze"
    RELEASE = "release"
    FAIL = "fail"
    LEASE_EXPIRED = "lease_expired"
    CANCEL = "cancel"
    CANCEL_REQUEST = "cancel_request"
    EXPIRE = "expire"
    STALE = "stale"
    REVIVE = "revive"
    PROMOTE_NOW = "promote_now"
    UPDATE = "update"
    DELETE = "delete"
    # Events in the history that change no state, so the table has no row for them.
    LEASE_LOST = "lease_lost"
    SUPERSEDE = "supersede"
    REVIEW = "review"
    STEP = "step"
    SLEEP = "sleep"
    EVENT = "event"
    QUESTION = "question"
    COMPENSATION = "compensation"
    PATCH = "patch"
    COST = "cost"


FINAL = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
OPEN = frozenset(State) - FINAL
NOT_STARTED = OPEN - {State.RUNNING}


class Transition(NamedTuple):
    event: Trigger
    sources: frozenset[State]
    targets: frozenset[State]
    note: str


def _row(event: Trigger, sources: frozenset[State] | set[State], targets: set[State], note: str) -> Transition:
    return Transition(event, frozenset(sources), frozenset(targets), note)


_S = State
TRANSITIONS: dict[Trigger, Transition] = {
    row.event: row
    for row in (
        _row(Trigger.SUBMIT, set(), {_S.PENDING, _S.SCHEDULED, _S.WAITING}, "by run_at and open parents"),
        _row(Trigger.PROMOTE, {_S.SCHEDULED, _S.RETRYING}, {_S.PENDING}, "when due; inside claim"),
        _row(
            Trigger.UNBLOCK,
            {_S.WAITING},
            {_S.PENDING, _S.SCHEDULED, _S.COMPLETED},
            "the last job it waits for ended, in the same commit; completed if its own run was over",
        ),
        _row(Trigger.CLAIM, {_S.PENDING}, {_S.RUNNING}, "attempt + 1, lease set"),
        _row(
            Trigger.SUCCEED,
            {_S.RUNNING},
            {_S.COMPLETED, _S.WAITING},
            "result stored; waiting while jobs that it has to wait for are open",
        ),
        _row(Trigger.RETRY, {_S.RUNNING}, {_S.RETRYING}, "error kept, run_at from the backoff"),
        _row(
            Trigger.SNOOZE,
            {_S.RUNNING},
            {_S.SCHEDULED, _S.PENDING},
            "spends no attempt; pending if the event it waits for has come meanwhile",
        ),
        _row(
            Trigger.RELEASE,
            {_S.RUNNING},
            {_S.PENDING, _S.SCHEDULED},
            "shutdown or unused prefetch; spends no attempt",
        ),
        _row(
            Trigger.FAIL,
            OPEN,
            {_S.FAILED},
            "attempts used up or permanent error, or given up by hand before it started; dead letter",
        ),
        _row(
            Trigger.LEASE_EXPIRED,
            {_S.RUNNING},
            {_S.PENDING, _S.RETRYING, _S.FAILED},
            "the lease ran out or its worker died; failed when attempts are used up; inside reap",
        ),
        _row(Trigger.CANCEL, OPEN, {_S.CANCELLED}, "a running attempt is fenced out at once"),
        _row(
            Trigger.CANCEL_REQUEST,
            {_S.RUNNING},
            {_S.RUNNING},
            "a newer call with the same key wants to run; only the cancellation that its worker then settles counts",
        ),
        _row(Trigger.EXPIRE, NOT_STARTED, {_S.CANCELLED}, "`expires` passed before it started; inside claim"),
        _row(Trigger.STALE, OPEN, {_S.FAILED}, "exceeded its lifecycle threshold"),
        _row(
            Trigger.REVIVE,
            FINAL,
            {_S.PENDING, _S.SCHEDULED, _S.WAITING},
            "retry by hand; the error history is kept; waiting while jobs that it waits for are open; scheduled if "
            "many are requeued at a rate",
        ),
        _row(
            Trigger.PROMOTE_NOW,
            {_S.SCHEDULED, _S.RETRYING, _S.WAITING},
            {_S.PENDING},
            "promote now; a waiting one runs without those it waits for",
        ),
        _row(Trigger.UPDATE, NOT_STARTED, set(NOT_STARTED), "an operator changed priority, queue or run_at"),
        _row(Trigger.DELETE, frozenset(State) - {_S.RUNNING}, set(), "the row is gone"),
    )
}


def sources(event: Trigger) -> frozenset[State]:
    """The states from which the event is legal."""
    return TRANSITIONS[event].sources


def is_legal(event: Trigger, source: State, target: State) -> bool:
    """Whether the table has a row that leads from source to target by this event."""
    row = TRANSITIONS[event]
    return source in row.sources and target in row.targets


def _names(states: frozenset[State]) -> list[str]:
    return sorted(states) or ["[*]"]  # in Mermaid, the start or the end


def _edges() -> Iterator[str]:
    for event, row in TRANSITIONS.items():
        if event is Trigger.UPDATE:
            continue
        for source in _names(row.sources):
            for target in _names(row.targets):
                yield f"    {source} --> {target}: {event}"


def diagram() -> str:
    """The table as a Mermaid state diagram."""
    return "\n".join(["stateDiagram-v2", *_edges()])


if __name__ == "__main__":
    print(diagram())
