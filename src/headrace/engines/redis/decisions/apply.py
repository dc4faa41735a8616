"""Changes that Python decides: it reads jobs, decides, and one script writes all of it if nothing changed meanwhile.

Only what is not hot goes this way: a decision costs a read more than a script of its own, and has no copy in Lua.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from headrace.core.dead_letters.records import DeadLetterResolution
from headrace.core.jobs.transfer import StoreStatus
from headrace.engines.redis import serialization
from headrace.engines.redis.script_loader import load
from headrace.engines.redis.script_records import RecordChange, WriteBatch
from headrace.engines.redis.serialization import Record
from headrace.engines.shared.decisions import closed_error
from headrace.errors import EngineUnavailable

if TYPE_CHECKING:
    from headrace.engines.redis.database import RedisDatabase

T = TypeVar("T")
_apply, _read_records = load("jobs/apply"), load("jobs/read_records")
_MAX_TRIES = 30
CHANGED = f"the jobs were changed {_MAX_TRIES} times while this call decided about them; try again"
_PAUSE = 0.002  # seconds; times the number of tries before


class Conflict(Exception):
    """Something changed between the read and the write; nothing was written."""


class StoredRecords(Struct, frozen=True):
    """Jobs as they were read, by number; None for a damaged one."""

    status: StoreStatus | None
    jobs: dict[bytes, Record | None]

    def refuse_if_closed(self, *, deleting: bool = False) -> None:
        """Refuse manual changes of a store that is being copied. A copy of moved jobs may be deleted."""
        if self.status is not None and not (deleting and self.status.kind == "moved"):
            raise closed_error(self.status)

    def whole(self) -> dict[bytes, Record]:
        """Those that are not damaged."""
        return {member: job for member, job in self.jobs.items() if job is not None}

    def damaged(self) -> list[bytes]:
        return [member for member, job in self.jobs.items() if job is None]

    @property
    def same_status(self) -> tuple[Any, ...]:
        """The expectation that the store status is still the same."""
        return (self.status.kind if self.status else False, "HGET", ":status", "kind")


def read_records(database: RedisDatabase, *, ids: Sequence[str] = (), members: Sequence[bytes] = ()) -> StoredRecords:
    """The jobs of these ids or numbers."""
    args: tuple[str, int, bytes] = (
        ("ids", len(ids), serialization.encode(ids))
        if ids
        else ("numbers", len(members), serialization.encode_names(members))
    )
    status, numbers, stored = database.connections.run(_read_records, *args, repeat=args)
    jobs = dict(zip(numbers, map(serialization.record, stored), strict=True))
    return StoredRecords(_status(status), jobs)


def read_status(database: RedisDatabase) -> StoredRecords:
    """The store status, without jobs."""
    kind, other = database.connections.command("HMGET", f"{{{database.prefix}}}:status", "kind", "other")
    return StoredRecords(_status((kind, other) if kind else ()), {})


def _status(answer: Sequence[bytes]) -> StoreStatus | None:
    return StoreStatus("moved" if answer[0] == b"moved" else "arriving", answer[1].decode(), 0) if answer else None


def change(
    member: bytes,
    job: Record,
    event: str | None = None,
    detail: str | None = None,
    *,
    error: Sequence[str] | None = None,
    dead_letter: dict[str, Any] | None = None,
    resolution: DeadLetterResolution | None = None,
    payload: dict[str, Any] | None = None,
    commands: Sequence[Sequence[Any]] | None = None,
    **values: Any,
) -> RecordChange:
    """A change of the job as it was read: its new values, with a line in its history. Without values it stays."""
    opened = dead_letter and {name: value for name, value in dead_letter.items() if value is not None}
    new, content = _without_none(values), _without_none(payload or {})
    more = (error, opened, resolution, content or None, commands)
    return RecordChange(member.decode(), job.version, new or None, event, detail, *more)


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    """A script would not see that these are to be removed."""
    return {name: False if value is None else value for name, value in values.items()}


def write(
    database: RedisDatabase, batch: WriteBatch, now: int, *, without_memory: bool = False, is_partial: bool = False
) -> set[int]:
    """Write the batch in one commit. Raises Conflict if a job or an expectation has changed since it was read.

    If it `is_partial`, changed jobs are left out instead; their places.
    """
    flags = (int(without_memory), int(is_partial))
    answer = database.connections.run(_apply, now, secrets.token_hex(8), *flags, serialization.encode_batch([batch]))
    is_written, damaged, left_out = answer
    if damaged:
        database.damaged.fail(damaged, now)
    if not is_written:
        raise Conflict
    return {position - 1 for position in left_out}


def retried(decide_and_write: Callable[[], T]) -> T:
    """The result, decided again after a conflict."""
    return retried_with(lambda _: decide_and_write())


def retried_with(decide_and_write: Callable[[int], T]) -> T:
    """The same, if it needs the number of conflicts so far."""
    for tries in range(_MAX_TRIES):
        try:
            return decide_and_write(tries)
        except Conflict:
            time.sleep(tries * _PAUSE)
    raise EngineUnavailable(CHANGED)


def rank_at(job: Record, run_at: int) -> int:
    """The rank for a new time: a job of a LIFO queue keeps its order."""
    return -run_at if job.rank < 0 else run_at
