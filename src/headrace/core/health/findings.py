"""Findings about a store and what to do about them: the rules and texts, once for every engine.

An engine counts; this module decides what to report. It reads neither clock nor store.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from msgspec import Struct, field

from headrace.core.jobs.records import WorkerRow
from headrace.core.text import counted

MaintenanceKind = Literal["checkpoint", "vacuum", "optimize", "workers"]
MAINTENANCE_KINDS: tuple[MaintenanceKind, ...] = get_args(MaintenanceKind)
Effort = Literal["due", "all", "full"]
RecordKind = Literal["history", "logs"]

LATE = 60_000  # milliseconds after which due work counts as late
GONE = 600_000  # milliseconds of silence after which a worker is removed
KEPT_AT_START = 10  # first entries of a long history that stay

WARNED, CRITICAL = 0.80, 0.85  # of the store's size limit
_LARGE = 500 * 2**20
_LITTLE_DISK, _NO_DISK = 500 * 2**20, 100 * 2**20


class Finding(Struct, frozen=True, kw_only=True):
    """A finding for an operator. A `note` is no fault; repair() fixes what is `repairable`."""

    code: str
    sentence: str
    advice: str
    count: int = 1
    repairable: bool = False
    note: bool = False
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.sentence}; {self.advice}"


class IntegrityCounts(Struct, kw_only=True):
    """The counts of an engine, each up to some thousands.

    `orphans` are records without their job, by kind; `strays` run under unknown workers; `unreaped` have a lease that
    expired long ago; `overdue` should have been promoted long ago; `forlorn` wait although no parent is open; `damaged`
    have unreadable records.
    """

    orphans: Mapping[str, int] = field(default_factory=dict)
    strays: int = 0
    unreaped: int = 0
    overdue: int = 0
    forlorn: int = 0
    damaged: int = 0
    workers: Sequence[WorkerRow] = ()


class TrimResult(Struct, frozen=True):
    """The result of one step of the history trim: entries removed, its position, and whether to continue."""

    removed: int
    reached: int
    more: bool


def is_gone(worker: WorkerRow, now: int) -> bool:
    """Whether a worker has been silent for so long that it need not be listed any more."""
    return now - worker.seen_at > max(GONE, 6 * worker.heartbeat)


def findings_of(integrity_counts: IntegrityCounts, now: int) -> list[Finding]:
    """The findings from these counts."""
    return [
        *_of_damage(integrity_counts),
        *_of_orphans(integrity_counts),
        *_of_zombies(integrity_counts, now),
        *_of_delays(integrity_counts, now),
    ]


def id_findings(damaged: Sequence[str]) -> list[Finding]:
    """The finding about unusable ids, given as they are shown."""
    if not damaged:
        return []
    return [
        Finding(
            code="damaged_ids",
            sentence=counted(len(damaged), "id is no text", "ids are no text"),
            advice="convert them to text with `headrace check --repair`, and delete the jobs you do not need",
            count=len(damaged),
            repairable=True,
            examples=tuple(damaged[:5]),
        )
    ]


def _of_damage(integrity_counts: IntegrityCounts) -> Iterator[Finding]:
    if integrity_counts.damaged:
        yield Finding(
            code="damaged_records",
            sentence=counted(
                integrity_counts.damaged, "record of a job can't be read", "records of jobs can't be read"
            ),
            advice="fail them with `headrace check --repair`, or restore a backup",
            count=integrity_counts.damaged,
            repairable=True,
        )


def _of_orphans(integrity_counts: IntegrityCounts) -> Iterator[Finding]:
    for what, count in integrity_counts.orphans.items():
        yield from orphan_finding(what, count)


def orphan_finding(what: str, count: int) -> Iterator[Finding]:
    """The finding about records of this kind without their job, if there are any."""
    if count:
        yield Finding(
            code=f"orphan_{what}",
            sentence=counted(count, *_ORPHANS[what]),
            advice="remove them with `headrace check --repair`",
            count=count,
            repairable=True,
        )


def unindexed_finding(count: int) -> Iterator[Finding]:
    """The finding about jobs that an index does not lead to, if there are any."""
    if count:
        yield Finding(
            code="unindexed",
            sentence=f"{counted(count, 'job is', 'jobs are')} not found where they should be",
            advice="put them there with `headrace check --repair`",
            count=count,
            repairable=True,
        )


_ORPHANS = {
    "history": ("history entry belongs to no job", "history entries belong to no job"),
    "logs": ("log line belongs to no job", "log lines belong to no job"),
    "tags": ("tag belongs to no job", "tags belong to no job"),
    "steps": ("remembered step belongs to no job", "remembered steps belong to no job"),
    "dependencies": ("dependency lacks a job at one end", "dependencies lack a job at one end"),
    "flows": ("flow has no job", "flows have no job"),
    "index": ("index entry leads to no job", "index entries lead to no job"),
    "times": ("time to fire belongs to no schedule", "times to fire belong to no schedule"),
}
# Codes of repairable findings.
REPAIRS = (*(f"orphan_{what}" for what in _ORPHANS), "silent_workers", "unindexed", "damaged_records", "damaged_ids")


def _of_zombies(integrity_counts: IntegrityCounts, now: int) -> Iterator[Finding]:
    silent = [worker for worker in integrity_counts.workers if worker.is_silent(now) and now - worker.seen_at > LATE]
    if silent:
        yield Finding(
            code="silent_workers",
            sentence=counted(len(silent), "worker has stopped reporting", "workers have stopped reporting")
            + f", such as {silent[0].id}",
            advice="check whether they hang or were killed; after ten minutes `headrace check --repair` removes them",
            count=len(silent),
            repairable=any(is_gone(worker, now) for worker in silent),
            examples=tuple(worker.id for worker in silent[:5]),
        )
    if integrity_counts.strays:
        yield Finding(
            code="stray_leases",
            sentence=counted(
                integrity_counts.strays,
                "job is running under a worker that never registered",
                "jobs are running under workers that never registered",
            ),
            advice="their leases will run out, and a live worker takes them over",
            count=integrity_counts.strays,
        )
    if integrity_counts.unreaped:
        yield Finding(
            code="unreaped_leases",
            sentence=counted(
                integrity_counts.unreaped,
                "running job has a lease that ended over a minute ago",
                "running jobs have leases that ended over a minute ago",
            ),
            advice="any live worker takes them over: start one",
            count=integrity_counts.unreaped,
        )


def _of_delays(integrity_counts: IntegrityCounts, now: int) -> Iterator[Finding]:
    has_live_worker = any(not worker.is_silent(now) for worker in integrity_counts.workers)
    if integrity_counts.overdue:
        advice = "all workers are busy or paused: add one" if has_live_worker else "no worker is alive: start one"
        yield Finding(
            code="overdue",
            sentence=counted(
                integrity_counts.overdue,
                "scheduled or retrying job is due for over a minute",
                "scheduled or retrying jobs are due for over a minute",
            ),
            advice=advice,
            count=integrity_counts.overdue,
            note=has_live_worker,
        )
    if integrity_counts.forlorn:
        yield Finding(
            code="forlorn",
            sentence=counted(
                integrity_counts.forlorn,
                "waiting job has no unfinished job to wait for",
                "waiting jobs have no unfinished job to wait for",
            ),
            advice="let them run with `headrace jobs promote --state waiting`, or cancel them",
            count=integrity_counts.forlorn,
        )


# -- size


class Sizes(Struct, frozen=True, kw_only=True):
    """The size of a store in bytes. `limit` is its maximum; None without one."""

    used: int
    limit: int | None = None
    disk_free: int | None = None


def size_findings(sizes: Sizes) -> list[Finding]:
    """Warn from 80 % of the limit, critical from 85 % on; without a limit, report from 500 MB on."""
    return [*_of_size(sizes), *_of_disk(sizes)]


def _of_size(sizes: Sizes) -> Iterator[Finding]:
    text = f"the store has {_megabytes(sizes.used)}"
    if sizes.limit:
        share = sizes.used / sizes.limit
        if share >= WARNED:
            yield Finding(
                code="size",
                sentence=f"{text}, {share:.0%} of the {_megabytes(sizes.limit)} it may have",
                advice="keep finished jobs for a shorter time, delete jobs, or raise the limit",
                note=share < CRITICAL,
            )
    elif sizes.used >= _LARGE:
        yield Finding(
            code="size",
            sentence=text,
            advice="if that is intended, set its maximum with the setting `max_size`",
            note=True,
        )


def _of_disk(sizes: Sizes) -> Iterator[Finding]:
    free = sizes.disk_free
    if free is not None and free < _LITTLE_DISK:
        yield Finding(
            code="disk",
            sentence=f"only {_megabytes(free)} are free on the disk of the store",
            advice="free some space: on a full disk, no job can be enqueued or finished",
            note=free >= _NO_DISK,
        )


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MB"


class StoragePart(Struct, frozen=True, kw_only=True):
    """A table or a key of the store: its name without the common prefix, its purpose and its size.

    `entries` of a table on PostgreSQL is the server's estimate. `bytes` is None if the store does not report it, and
    `expires`, in seconds from now, is None if it stays.
    """

    name: str
    kind: str
    entries: int
    bytes: int | None = None
    expires: float | None = None


# -- load


class MigrationResult(NamedTuple):
    """The version of the tables before, 0 if there were none, and the one this headrace works with."""

    found: int
    current: int
    applied: list[str]  # the names of the migrations that ran


class MaintenanceResult(Struct, frozen=True):
    """Whether there is more to do, and the bytes of the store, or of its log, before and after."""

    more: bool = False
    sizes: dict[str, int] = {}


class StoreFacts(Struct, frozen=True):
    """The bytes of a store, its schedules, the share of writes that had to wait, and the clients of its server.

    None is unknown: a server does not report the share, and a file has no clients. `details` are facts for operators:
    file, versions, settings.
    """

    details: dict[str, str | int]
    size: int
    schedules: int = 0
    busy: float | None = None
    clients: int | None = None


class WriteContention(Struct, frozen=True, array_like=True):
    """The contention among writers of a file within an hour: writes, late ones, jobs stored or settled."""

    hour: int
    turns: int = 0
    late: int = 0
    jobs: int = 0

    def plus(self, other: WriteContention) -> WriteContention:
        return WriteContention(self.hour, self.turns + other.turns, self.late + other.late, self.jobs + other.jobs)


HOURS_KEPT = 24
_HOUR = 3_600_000  # milliseconds
_BUSY_RATE = 0.05
_ENOUGH_TURNS = 1000
_BUSY_JOBS = 2000  # a second, over a whole hour


def add_pressure(known: Sequence[WriteContention], fresh: WriteContention) -> list[WriteContention]:
    """The hours of a day with the new one added, newest last."""
    hours = {each.hour: each for each in known if fresh.hour - HOURS_KEPT < each.hour <= fresh.hour}
    hours[fresh.hour] = hours.get(fresh.hour, WriteContention(fresh.hour)).plus(fresh)
    return [hours[hour] for hour in sorted(hours)]


def late_share(hours: Sequence[WriteContention], now: int) -> float:
    """The share of late writes in this hour and the last one."""
    recent = [each for each in hours if each.hour >= now // _HOUR - 1]
    turns = sum(each.turns for each in recent)
    return sum(each.late for each in recent) / turns if turns else 0.0


def contention_findings(hours: Sequence[WriteContention], url: str) -> list[Finding]:
    """Whether a file is outgrown: writes of several processes wait, or there is more work than one disk can do."""
    found = []
    advice = f"it is time for a server: `headrace copy {url} postgresql://...`"
    busy = [each for each in hours if each.turns >= _ENOUGH_TURNS and each.late > _BUSY_RATE * each.turns]
    if busy:
        worst = max(busy, key=lambda each: each.late / each.turns)
        found.append(
            Finding(
                code="outgrown_busy",
                sentence=f"{worst.late / worst.turns:.0%} of the writes of the worst hour of a day waited for others",
                advice=advice,
                count=len(busy),
                note=True,
            )
        )
    most = max((each.jobs for each in hours), default=0)
    if most > _BUSY_JOBS * 3600:
        found.append(
            Finding(
                code="outgrown_throughput",
                sentence=f"{most / 3600:,.0f} jobs a second were stored and settled in the busiest hour of this day",
                advice=advice,
                note=True,
            )
        )
    return found
