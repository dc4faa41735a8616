"""Finished jobs that are removed early: there are more than `job_history_size`, or the store is full."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import islice

from headrace.core.jobs.records import Filter
from headrace.core.jobs.states import FINAL, State
from headrace.core.retention.retention import GRACE, FinishedJob, is_removable_early
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.runtime.retention.removal import RetentionCounts

log = logging.getLogger("headrace.maintenance")

FULL, MARGIN = 0.95, 0.90  # share of the server's memory limit: removal begins at the first and ends at the second
_PAGE_SIZE = 200
_MIN_JOBS = 10  # jobs to remove at once from a full store; of many, 1 %
Removal = Callable[[list[FinishedJob]], Iterator[None]]


class EarlyRemoval:
    """The early removals of one store, oldest first. For jobs that must stay, see `RetentionStore.finished`."""

    def __init__(self, engine: Engine, settings: Settings) -> None:
        self._engine = engine
        self._most = settings.job_history_size

    def beyond_history(self, now: int, counts: RetentionCounts, dry_run: bool, remove: Removal) -> Iterator[None]:
        """All but the newest `job_history_size`."""
        if self._most is None:
            return
        gone = set(counts.jobs) if dry_run else set[str]()
        over = self._engine.queries.count(Filter(states=tuple(FINAL))).jobs - self._most - len(gone)
        if over > 0:
            yield from remove(list(islice(self._oldest(now, gone), over)))

    def when_full(self, now: int, remove: Removal) -> Iterator[None]:
        """As many as it takes until a server that refuses writes accepts them again."""
        facts = self._engine.maintenance.facts().details
        if _share(facts) < FULL:
            return
        oldest, step = self._oldest(now), max(int(facts.get("jobs", 0)) // 100, _MIN_JOBS)
        removed = 0
        while _share(self._engine.maintenance.facts().details) >= MARGIN and (some := list(islice(oldest, step))):
            yield from remove(some)
            removed += len(some)
        if removed:
            log.warning("the store is full: removed %d finished jobs early", removed)

    def _oldest(self, now: int, but: Collection[str] = ()) -> Iterator[FinishedJob]:
        queues = [row.name for row in self._engine.queries.rules().queues]
        pages = [self._of(queue, state, now) for queue in queues for state in sorted(FINAL)]
        merged = heapq.merge(*pages, key=lambda job: (job.finished_at, job.seq))
        return (job for job in merged if is_removable_early(job, now) and job.id not in but)

    def _of(self, queue: str, state: State, now: int) -> Iterator[FinishedJob]:
        after: FinishedJob | None = None
        while page := self._engine.retention_store.finished(queue, state, now - GRACE + 1, _PAGE_SIZE, after):
            yield from page
            after = page[-1]


def _share(facts: Mapping[str, str | int]) -> float:
    """The share of its memory limit that the server uses; 0 without a limit."""
    limit = int(facts.get("size_limit", 0))
    return int(facts.get("size", 0)) / limit if limit else 0.0
