"""One retention run over the finished jobs of a store: due jobs are archived and removed in small pieces.

Three steps, each safe to repeat and to run twice at once: export, archive, remove by id and version. After an
interruption the job is still live and the next run continues; a job that ran again meanwhile stays. A dry run does the
same reads and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from headrace.core.clock import to_ms
from headrace.core.jobs.states import FINAL, State
from headrace.core.retention.archive import is_past, partition_of, span_of
from headrace.core.retention.lifecycle import Policies, PolicyRow, StoredPolicy, default_policy
from headrace.core.retention.retention import (
    KEY_TTL,
    FinishedJob,
    RetentionAction,
    has_removal,
    is_removed_on_finish,
    removal_kind,
    removal_of,
    retention_action,
    shortest,
)
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.budgets import drop_budgets
from headrace.runtime.retention.dead_letters import DeadLetterRetention
from headrace.runtime.retention.early_removal import EarlyRemoval
from headrace.runtime.retention.policies import policies as stored_policies
from headrace.runtime.retention.removal import RemovalBatch, RetentionCounts

_PAGE_SIZE = 500  # finished jobs per read
_STATES = sorted(FINAL)
_NEVER = 1 << 62


class ScanBound(Struct):
    """How far the young jobs of a queue and state were checked, so that the next run need not go as far."""

    floor: int = 0  # jobs that ended before this were checked
    held: int = _NEVER  # when the oldest job ended that is due but must stay: it is checked again
    counted: bool = False  # whether a number of newest jobs stays: then a run has to read all of them


class RetentionSweep:
    """Runs retention on one store, by its policies or by these. `wanted` are queues with calls to remove on finish."""

    def __init__(
        self, engine: Engine, settings: Settings, archive: Archive | None, policy_rows: list[PolicyRow] | None = None
    ) -> None:
        self._engine = engine
        self._policy_rows = policy_rows
        self._settings = settings
        self._archive = archive
        self._removal_batch = RemovalBatch(engine, archive, settings.archive_partition)
        self._dead_letters = DeadLetterRetention(engine, settings)
        self._early_removal = EarlyRemoval(engine, settings)
        self._since: int | None = None
        self._bounds: dict[tuple[str, State], ScanBound] = {}

    def walk(
        self,
        counts: RetentionCounts,
        *,
        dry_run: bool = False,
        wanted: Collection[str] | None = None,
        full_scan: bool = True,
    ) -> Iterator[None]:
        """Check everything, and yield after each piece; without `full_scan`, young jobs only where they may be due.

        An error in one part does not stop the next ones: the first error is raised at the end.
        """
        now = self._engine.clock.now()
        self._removal_batch.reset()
        self._since = self._archived_since(now)
        rows = stored_policies(self._engine.document_store) if self._policy_rows is None else self._policy_rows
        policies = Policies(rows, self._settings)
        stated = [default_policy(self._settings), *(row.policy for row in rows)]

        def remove(jobs: list[FinishedJob]) -> Iterator[None]:
            actions = [(job, removal_kind(job, policies.of(job.task, job.queue), self._since)) for job in jobs]
            yield from self._apply(actions, counts, dry_run)
            yield from self._removal_batch.flush(counts)

        parts = [
            self._jobs(policies, stated, now, counts, dry_run, wanted or (), full_scan),
            self._early_removal.beyond_history(now, counts, dry_run, remove),
            *(() if dry_run else (self._early_removal.when_full(now, remove),)),
            self._dead_letters.walk(now, counts, dry_run),
            self._partitions(now, counts, dry_run),
            *(() if dry_run else (self._budgets(now),)),
        ]
        errors: list[Exception] = []
        for part in parts:
            try:
                yield from part
            except Exception as error:
                errors.append(error)
        for first in [*self._removal_batch.errors, *errors]:
            raise first

    def _budgets(self, now: int) -> Iterator[None]:
        drop_budgets(self._engine, now)
        yield

    # -- jobs

    def _jobs(
        self,
        policies: Policies,
        stated: list[StoredPolicy],
        now: int,
        counts: RetentionCounts,
        dry_run: bool,
        wanted: Collection[str],
        full_scan: bool,
    ) -> Iterator[None]:
        for queue in [row.name for row in self._engine.queries.rules().queues]:
            for state in _STATES:
                if full_scan:
                    yield from self._through(queue, state, policies, now, counts, dry_run)
                    continue
                yield from self._due_by_age(queue, state, stated, policies, now, counts)
                if state is not State.CANCELLED and (has_removal(stated, state) or queue in wanted):
                    yield from self._young(queue, state, policies, now, counts)
        yield from self._removal_batch.flush(counts)

    def _due_by_age(
        self,
        queue: str,
        state: State,
        stated: list[StoredPolicy],
        policies: Policies,
        now: int,
        counts: RetentionCounts,
    ) -> Iterator[None]:
        """Jobs that any policy removes by age, oldest first."""
        span = shortest(stated, state)
        if span is None:
            return
        after: FinishedJob | None = None
        while page := self._engine.retention_store.finished(queue, state, now - span + 1, _PAGE_SIZE, after):
            yield from self._apply([(job, self._action(job, policies, now, 0)) for job in page], counts, dry_run=False)
            after = page[-1]
            if len(page) < _PAGE_SIZE:
                return

    def _young(self, queue: str, state: State, policies: Policies, now: int, counts: RetentionCounts) -> Iterator[None]:
        """Jobs that are removed as soon as they finish: new ones since the last run, or all if they are counted."""
        bound = self._bounds.setdefault((queue, state), ScanBound())
        floor, bound.held = 0 if bound.counted else bound.floor, _NEVER
        yield from self._through(queue, state, policies, now, counts, floor=floor)
        if floor:  # also jobs whose unique key had to be kept for a day, which has ended since the last run
            yield from self._through(queue, state, policies, now, counts, floor=floor - KEY_TTL, younger=KEY_TTL)
        # Check again what was too young then, and what others were just about to commit.
        bound.floor = min(now - 2 * 60_000, bound.held)

    def _through(
        self,
        queue: str,
        state: State,
        policies: Policies,
        now: int,
        counts: RetentionCounts,
        dry_run: bool = False,
        floor: int = 0,
        younger: int = 0,
    ) -> Iterator[None]:
        """All of them down to those that ended at `floor`, newest first, counting the jobs of each task that stay.

        Those that ended less than `younger` ago are left out.
        """
        after: FinishedJob | None = None
        staying: Counter[str] = Counter()
        while page := self._engine.retention_store.finished(
            queue, state, now - younger + 1, _PAGE_SIZE, after, newest=True
        ):
            young = [job for job in page if job.finished_at >= floor]
            decided: list[tuple[FinishedJob, RetentionAction]] = []
            refused = []
            for job in young:
                if (
                    job.held
                    and job.state is State.FAILED
                    and is_removed_on_finish(job, policies.of(job.task, queue), staying[job.task])
                ):
                    refused.append(job.id)
                decided.append((job, self._action(job, policies, now, staying[job.task])))
                staying[job.task] += decided[-1][1] == "keep"
            self._update_bound(queue, state, young, policies)
            if not dry_run:
                self._dead_letters.close_for(refused, counts)
            yield from self._apply(decided, counts, dry_run)
            after = page[-1]
            if len(page) < _PAGE_SIZE or len(young) < len(page):
                return

    def _update_bound(self, queue: str, state: State, jobs: Sequence[FinishedJob], policies: Policies) -> None:
        """Remember which of these jobs the next run has to check again."""
        bound = self._bounds.setdefault((queue, state), ScanBound())
        for job in jobs:
            removal = removal_of(job, policies.of(job.task, queue))
            bound.counted |= not isinstance(removal, bool)
            if removal is True and job.held:
                bound.held = min(bound.held, job.finished_at)

    def _action(self, job: FinishedJob, policies: Policies, now: int, newer: int) -> RetentionAction:
        return retention_action(job, policies.of(job.task, job.queue), now, self._since, newer)

    def _archived_since(self, now: int) -> int | None:
        """When the first partition that the archive keeps begins; None without an archive."""
        if self._archive is None:
            return None
        if self._settings.archive_keep is None:
            return 0
        span = span_of(partition_of(max(self._cutoff(now), 0), self._settings.archive_partition))
        return span[0] if span else 0

    def _cutoff(self, now: int) -> int:
        return now - to_ms(self._settings.archive_keep or 0)

    def _apply(
        self, decided: list[tuple[FinishedJob, RetentionAction]], counts: RetentionCounts, dry_run: bool
    ) -> Iterator[None]:
        yield
        if dry_run:
            archived = [job.id for job, action in decided if action == "archive"]
            counts.count(archived, [job.id for job, action in decided if action == "delete"])
        else:
            yield from self._removal_batch.collect(
                [(job, action) for job, action in decided if action != "keep"], counts
            )

    # -- partitions

    def _partitions(self, now: int, counts: RetentionCounts, dry_run: bool) -> Iterator[None]:
        if self._archive is None:
            return
        if dry_run:
            names = [one.name for one in self._archive.partitions()] if self._settings.archive_keep is not None else []
            counts.dropped += [name for name in names if is_past(name, self._cutoff(now))]
            return
        interval = self._settings.archive_partition if self._settings.archive else None
        before = None if self._settings.archive_keep is None else self._cutoff(now)
        if interval is None and before is None:
            return
        changes = self._archive.update_partitions(now, interval, before)
        counts.prepared += changes.created
        counts.unprepared += len(changes.failed)
        counts.dropped += changes.dropped
        yield
