"""Pure decisions that all engines share."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import State, Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import UniqueRule
from headrace.errors import EngineUnavailable, HeadraceError, InvalidJob, QueueFull, SchemaMismatch, StoreMoved

_LONGEST_CURSOR = 18  # digits that fit the integers of every store


def actor_suffix(by: str | None) -> str:
    """The actor, as a suffix for what was done."""
    return f" (by {by})" if by else ""


def topics_of(event: Trigger) -> tuple[str, ...]:
    """The topics to ring after a move: waiting callers, idle workers, or the worker that runs the job."""
    if event is Trigger.CANCEL:
        return "done", "commands", "work"  # a slot of a limit may be free
    return ("done",) if event is Trigger.DELETE else ("work",)


def state_after(source: State, run_at: int | None, now: int) -> State:
    """The state of an unstarted job after a change of its time."""
    if run_at is None or source is State.WAITING:
        return source
    if run_at <= now:
        return State.PENDING
    return State.RETRYING if source is State.RETRYING else State.SCHEDULED


def refuse_unique_graph(unique: Sequence[UniqueRule | None]) -> None:
    """Refuse unique rules for jobs with dependencies or a flow: a replaced job would need other dependencies."""
    if any(unique):
        raise InvalidJob("unique: jobs with dependencies or a flow can't have unique rules")


def queue_full(queue: str, limit: int, waiting: int, added: int) -> QueueFull:
    """The error for jobs that do not fit into their queue."""
    return QueueFull(
        f"queue {queue!r} holds at most {limit} waiting jobs and has {waiting}; {added} more don't fit. Start more "
        f"workers, or raise the limit: app.queue({queue!r}).configure(max_length=...)",
        queue=queue,
        limit=limit,
        waiting=waiting,
    )


def newer_layout(where: str, version: int, known: int) -> SchemaMismatch:
    """The error for a store that only a newer headrace can use."""
    return SchemaMismatch(
        f"{where} has a layout of version {version}, written by a newer headrace; this one knows up to {known}. "
        "Upgrade headrace here; nothing was changed."
    )


def unreleased_layout(where: str, place: str) -> SchemaMismatch:
    """The error for a store whose layout was changed before the first release."""
    return SchemaMismatch(
        f"{where} has the layout of a development version that no release can read. Let that version finish its jobs, "
        f"then start with {place}; nothing was changed."
    )


class CopyFinished(Exception):
    """The store no longer accepts jobs from this origin: the copy was completed or given up.

    Jobs that were copied may have run and been deleted since.
    """


def closed_error(store_status: StoreStatus) -> HeadraceError:
    """The error for a manual change on a store that has moved or is still being filled."""
    if store_status.kind == "moved":
        return StoreMoved(store_status.other)
    return EngineUnavailable(f"this store is being filled from {store_status.other}; try again when that is through")


def movable_states(which: Filter, legal: frozenset[State]) -> tuple[State, ...]:
    """The states a move may start from: the legal ones of the requested states, in a fixed order."""
    return tuple(sorted(state for state in (which.states or legal) if state in legal))


def position(cursor: str | None) -> int | None:
    """The position in the order of submission of a cursor from `find`."""
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or len(cursor) > _LONGEST_CURSOR:
        raise InvalidJob(f"cursor {cursor!r} is not one that find() returned", field="cursor", value=cursor)
    return int(cursor)
