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
    KEYS_HOLD,
    Fate,
    FinishedJob,
    asks_for_removal,
    fate,
    goes_at_once,
    removal_of,
    shortest,
    way_out,
)
from headrace.core.settings.settings import Settings
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.runtime.retention.dead_letters import DeadLetterSweep
from headrace.runtime.retention.early_removal import EarlyRemoval
from headrace.runtime.retention.removal import RemovalBatch, RetentionCounts

_LOOKS = 500  # finished jobs per read
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
        self, engine: Engine, settings: Settings, archive: Archive | None, terms: list[PolicyRow] | None = None
    ) -> None:
        self._engine = engine
        self._terms = terms
        self._settings = settings
        self._archive = archive
        self._removal_batch = RemovalBatch(engine, archive, settings.archive_partition)
        self._dead_letters = DeadLetterSweep(engine, settings)
        self._excess = EarlyRemoval(engine, settings)
        self._since: int | None = None
        self._reaches: dict[tuple[str, State], ScanBound] = {}

    def walk(
        self,
        tally: RetentionCounts,
        *,
        dry_run: bool = False,
        wanted: Collection[str] | None = None,
        whole: bool = True,
    ) -> Iterator[None]:
        """Check everything, and yield after each piece; without `whole`, young jobs only where they may be due.

        An error in one part does not stop the next ones: the first error is raised at the end.
        """
        now = self._engine.clock.now()
        self._removal_batch.forget()
        self._since = self._archived_since(now)
        rows = self._engine.staleness_store.policies() if self._terms is None else self._terms
        book = Policies(rows, self._settings)
        said = [default_policy(self._settings), *(row.said for row in rows)]

        def remove(jobs: list[FinishedJob]) -> Iterator[None]:
            ways = [(job, way_out(job, book.of(job.task, job.queue), self._since)) for job in jobs]
            yield from self._carry_out(ways, tally, dry_run)
            yield from self._removal_batch.let_go(tally)

        parts = [
            self._jobs(book, said, now, tally, dry_run, wanted or (), whole),
            self._excess.beyond_history(now, tally, dry_run, remove),
            *(() if dry_run else (self._excess.for_room(now, remove),)),
            self._dead_letters.walk(now, tally, dry_run),
            self._partitions(now, tally, dry_run),
        ]
        errors: list[Exception] = []
        for part in parts:
            try:
                yield from part
            except Exception as error:
                errors.append(error)
        for first in [*self._removal_batch.errors, *errors]:
            raise first

    # -- jobs

    def _jobs(
        self,
        book: Policies,
        said: list[StoredPolicy],
        now: int,
        tally: RetentionCounts,
        dry_run: bool,
        wanted: Collection[str],
        whole: bool,
    ) -> Iterator[None]:
        for queue in [row.name for row in self._engine.queries.queues()]:
            for state in _STATES:
                if whole:
                    yield from self._through(queue, state, book, now, tally, dry_run)
                    continue
                yield from self._ripe(queue, state, said, book, now, tally)
                if state is not State.CANCELLED and (asks_for_removal(said, state) or queue in wanted):
                    yield from self._young(queue, state, book, now, tally)
        yield from self._removal_batch.let_go(tally)

    def _ripe(
        self, queue: str, state: State, said: list[StoredPolicy], book: Policies, now: int, tally: RetentionCounts
    ) -> Iterator[None]:
        """Jobs that any policy removes by age, oldest first."""
        span = shortest(said, state)
        if span is None:
            return
        after: FinishedJob | None = None
        while page := self._engine.retention_store.finished(queue, state, now - span + 1, _LOOKS, after):
            yield from self._carry_out([(job, self._fate(job, book, now, 0)) for job in page], tally, dry_run=False)
            after = page[-1]
            if len(page) < _LOOKS:
                return

    def _young(self, queue: str, state: State, book: Policies, now: int, tally: RetentionCounts) -> Iterator[None]:
        """Jobs that are removed as soon as they finish: new ones since the last run, or all if they are counted."""
        reach = self._reaches.setdefault((queue, state), ScanBound())
        floor, reach.held = 0 if reach.counted else reach.floor, _NEVER
        yield from self._through(queue, state, book, now, tally, floor=floor)
        if floor:  # also jobs whose unique key had to be kept for a day, which has ended since the last run
            yield from self._through(queue, state, book, now, tally, floor=floor - KEYS_HOLD, younger=KEYS_HOLD)
        # Check again what was too young then, and what others were just about to commit.
        reach.floor = min(now - 2 * 60_000, reach.held)

    def _through(
        self,
        queue: str,
        state: State,
        book: Policies,
        now: int,
        tally: RetentionCounts,
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
            queue, state, now - younger + 1, _LOOKS, after, newest=True
        ):
            young = [job for job in page if job.finished_at >= floor]
            judged: list[tuple[FinishedJob, Fate]] = []
            refused = []
            for job in young:
                if (
                    job.held
                    and job.state is State.FAILED
                    and goes_at_once(job, book.of(job.task, queue), staying[job.task])
                ):
                    refused.append(job.id)
                judged.append((job, self._fate(job, book, now, staying[job.task])))
                staying[job.task] += judged[-1][1] == "keep"
            self._take_note(queue, state, young, book)
            if not dry_run:
                self._dead_letters.let_go(refused, tally)
            yield from self._carry_out(judged, tally, dry_run)
            after = page[-1]
            if len(page) < _LOOKS or len(young) < len(page):
                return

    def _take_note(self, queue: str, state: State, jobs: Sequence[FinishedJob], book: Policies) -> None:
        """Remember which of these jobs the next run has to check again."""
        reach = self._reaches.setdefault((queue, state), ScanBound())
        for job in jobs:
            removal = removal_of(job, book.of(job.task, queue))
            reach.counted |= not isinstance(removal, bool)
            if removal is True and job.held:
                reach.held = min(reach.held, job.finished_at)

    def _fate(self, job: FinishedJob, book: Policies, now: int, newer: int) -> Fate:
        return fate(job, book.of(job.task, job.queue), now, self._since, newer)

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

    def _carry_out(
        self, judged: list[tuple[FinishedJob, Fate]], tally: RetentionCounts, dry_run: bool
    ) -> Iterator[None]:
        yield
        if dry_run:
            archived = [job.id for job, action in judged if action == "archive"]
            tally.count(archived, [job.id for job, action in judged if action == "delete"])
        else:
            yield from self._removal_batch.collect([(job, action) for job, action in judged if action != "keep"], tally)

    # -- partitions

    def _partitions(self, now: int, tally: RetentionCounts, dry_run: bool) -> Iterator[None]:
        if self._archive is None:
            return
        if dry_run:
            names = [one.name for one in self._archive.partitions()] if self._settings.archive_keep is not None else []
            tally.dropped += [name for name in names if is_past(name, self._cutoff(now))]
            return
        if self._settings.archive:
            tally.prepared += self._archive.prepare(now, self._settings.archive_partition)
            tally.unprepared += len(self._archive.failures())
            yield
        if self._settings.archive_keep is not None:
            tally.dropped += self._archive.drop(self._cutoff(now))
            yield
