"""Changes of jobs by operators in Redis: cancel, revive, promote, delete, update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.core.jobs.dependencies import HELD
from headrace.core.jobs.records import JobUpdate
from headrace.core.jobs.states import State, Trigger, sources
from headrace.engines.redis import serialization
from headrace.engines.redis.decisions.apply import (
    CHANGED,
    change,
    rank_at,
    read_records,
    read_status,
    retried,
    retried_with,
    write,
)
from headrace.engines.redis.decisions.requeue import StoredLetter, pending_of, revived, unchanged
from headrace.engines.redis.script_records import RecordChange, WriteBatch
from headrace.engines.redis.serialization import Record
from headrace.engines.shared.decisions import actor_suffix, state_after, topics_of
from headrace.engines.shared.requeue_decisions import resolution_of
from headrace.errors import EngineUnavailable

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

_WHOLE_TRIES = 3  # after so many conflicts, jobs that have changed are left out, and decided again
_MAX_IN_VAIN = 8  # writes that found every job changed
_DIGITS = 12  # of a job's number


def update(database: RedisDatabase, job_id: str, changes: JobUpdate, by: str | None, now: int) -> bool:
    """Change an unstarted job; False if it is none."""
    detail = changes.format_changes() + actor_suffix(by)

    def decide() -> bool:
        found = read_records(database, ids=[job_id])
        found.refuse_if_closed()
        for member, job in found.whole().items():
            if job.state in sources(Trigger.UPDATE):
                created = [("HSETNX", ":queues", changes.queue, now)] if changes.queue else []
                updated = change(member, job, Trigger.UPDATE, detail, **_updated(job, changes, now))
                write(database, WriteBatch([updated], [found.same_status], created), now)
                return True
        return False

    return retried(decide)


def _updated(job: Record, changes: JobUpdate, now: int) -> dict[str, Any]:
    values: dict[str, Any] = {"state": state_after(job.state, changes.run_at, now)}
    if changes.run_at is not None:
        values |= {"run_at": changes.run_at, "rank": rank_at(job, changes.run_at)}
    if changes.priority is not None:
        values["priority"] = changes.priority
    if changes.queue:
        values["queue"] = changes.queue
    return values


def move(
    database: RedisDatabase, find: Callable[[], Iterable[bytes]], event: Trigger, by: str | None, now: int
) -> list[str]:
    """Move the jobs that `find` finds, each as its number and its record; their ids.

    Jobs that were left out because others changed them are decided again, until none is left.
    """
    topics = [topic for topic in topics_of(event) if topic != "work"]
    only: set[bytes] | None = None

    def decide(conflicts: int) -> tuple[list[str], set[bytes]]:
        status = read_status(database)
        status.refuse_if_closed(deleting=event is Trigger.DELETE)  # a copy of moved jobs may be deleted here
        found = {part[:_DIGITS]: serialization.record(part[_DIGITS:]) for part in find()}
        jobs = {member: job for member, job in found.items() if job is not None and (only is None or member in only)}
        if not jobs:
            return [], set()
        letters = pending_of(database, [job.id for job in jobs.values()]) if event is Trigger.REVIVE else {}
        changes = [_moved(member, job, event, letters.get(job.id), by, now) for member, job in jobs.items()]
        expectations = [status.same_status, *unchanged(letters.values())]
        if event is Trigger.REVIVE:
            without = [job.id for job in jobs.values() if job.id not in letters]
            expectations += [(False, "HGET", ":dead_pending", job_id) for job_id in without]
        batch = WriteBatch(changes, expectations, topics=topics)
        is_partial = conflicts >= _WHOLE_TRIES and not letters
        left_out = write(database, batch, now, without_memory=event is Trigger.DELETE, is_partial=is_partial)
        left = {member for place, member in enumerate(jobs) if place in left_out}
        return [job.id for member, job in jobs.items() if member not in left], left

    moved: list[str] = []
    in_vain = 0
    while only is None or only:
        some, only = retried_with(decide)
        moved += some
        in_vain = 0 if some else in_vain + 1
        if only and in_vain == _MAX_IN_VAIN:
            raise EngineUnavailable(CHANGED)
    return moved


def _moved(
    member: bytes, job: Record, event: Trigger, letter: StoredLetter | None, by: str | None, now: int
) -> RecordChange:
    detail = f"by {by}" if by else None
    if event is Trigger.REVIVE:
        resolution = resolution_of(letter.row, "requeued", by, None, now) if letter else None
        resolved = [("HDEL", ":dead_pending", job.id)] if letter else []  # a damaged one does not name its job
        return revived(member, job, detail, now, now, resolved, resolution=resolution)
    commands: list[Sequence[Any]] = []
    values: dict[str, Any] = {}
    if event is Trigger.CANCEL:
        values = {"state": State.CANCELLED, "finished_at": now, "reason": f"cancelled{actor_suffix(by)}"}
    elif event is Trigger.PROMOTE_NOW:
        values = {"state": State.PENDING, "run_at": now, "rank": rank_at(job, now)}
        if job.reason == HELD or job.state is State.WAITING:  # it may be held by now
            values["reason"] = None
        if job.state is State.WAITING:  # its dependencies stay, but none of them blocks it any more
            commands.append(("UNLINK", f":blocks:{member.decode()}"))
    return change(member, job, event, detail, commands=commands or None, **values)
