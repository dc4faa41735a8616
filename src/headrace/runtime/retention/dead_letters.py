"""Dead letters in a retention run: pending ones that are too old expire, closed ones are removed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.core.clock import to_ms
from headrace.core.dead_letters.records import DeadLetterFilter, Status
from headrace.core.jobs.records import DeadLetterRow
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.retention.removal import RetentionCounts

# Closed dead letters by how long they stay. Those of jobs that may not be retried stay longer, as they have the reason.
CLOSED: tuple[Status, ...] = ("requeued", "manually_resolved", "cancelled", "expired")
PERMANENT: tuple[Status, ...] = ("permanently_failed",)
_PENDING = DeadLetterFilter(statuses=("pending",))
_BATCH_SIZE = 500
_BY = "headrace"
_TOO_OLD = "it was not resolved in time"
_REMOVED = "its job is removed on failure"


class DeadLetterRetention:
    """The dead letters of one store. A job whose dead letter expires follows its retention from the next run on."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._settings = settings

    def close_for(self, job_ids: Sequence[str], counts: RetentionCounts) -> None:
        """Close the pending dead letters of failed jobs that are to be removed."""
        if not job_ids or self._is_being_copied():
            return
        which = DeadLetterFilter(latest_of=tuple(job_ids), statuses=("pending",))
        pending = [row.id for row in self._engine.dead_letters.find(which, len(job_ids))]
        if pending:
            counts.expired += self._closed(pending, _REMOVED)

    def walk(self, now: int, counts: RetentionCounts, dry_run: bool) -> Iterator[None]:
        keep, keep_pending = self._settings.dead_keep, self._settings.dead_pending_keep
        if dry_run:
            counts.expired += self._count_due(now)
        elif self._is_being_copied():
            return
        else:
            yield from self._expire(now, counts)
        if keep is not None:
            yield from self._remove(CLOSED, now - to_ms(keep), counts, dry_run)
        if keep_pending is not None:
            yield from self._remove(PERMANENT, now - to_ms(keep_pending), counts, dry_run)

    def _is_being_copied(self) -> bool:
        return self._engine.transfer.store_status() is not None  # a copy compares both stores, so nothing may change

    # -- pending ones

    def _expire(self, now: int, counts: RetentionCounts) -> Iterator[None]:
        while due := self._due(now):
            done = self._closed([row.id for row in due], _TOO_OLD)
            if not done:
                return
            counts.expired += done
            yield

    def _due(self, now: int) -> list[DeadLetterRow]:
        """The oldest ones that are too old, or too many; read anew for each batch, as others resolve some meanwhile."""
        find = self._engine.dead_letters.find
        if too_old := find(self._too_old(now), _BATCH_SIZE, oldest_first=True):
            return too_old
        over = self._count_over()
        return find(_PENDING, min(over, _BATCH_SIZE), oldest_first=True) if over else []

    def _closed(self, ids: Sequence[str], note: str) -> int:
        try:
            return len(self._engine.dead_letters.update(ids, "expired", _BY, note))
        except EngineUnavailable:  # a full store accepts no write: the next run tries again
            return 0

    def _count_due(self, now: int) -> int:
        return max(self._engine.dead_letters.count(self._too_old(now)), self._count_over())

    def _too_old(self, now: int) -> DeadLetterFilter:
        keep = self._settings.dead_pending_keep
        return DeadLetterFilter(statuses=("pending",), until=0 if keep is None else now - to_ms(keep))

    def _count_over(self) -> int:
        most = self._settings.dead_pending_max
        return 0 if most is None else max(self._engine.dead_letters.count(_PENDING) - most, 0)

    # -- closed ones

    def _remove(
        self, statuses: tuple[Status, ...], before: int, counts: RetentionCounts, dry_run: bool
    ) -> Iterator[None]:
        which = DeadLetterFilter(statuses=statuses, ended_before=before)
        if dry_run:
            counts.dead_letters += self._engine.dead_letters.count(which)
            return
        removed = _BATCH_SIZE
        while removed == _BATCH_SIZE:
            removed = self._engine.dead_letters.delete(which, _BATCH_SIZE)
            counts.dead_letters += removed
            yield
