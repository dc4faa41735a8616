"""Records of the archive."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class ArchiveRun(Struct, frozen=True, kw_only=True):
    """The result of a retention run or dry run: the number of archived and deleted jobs.

    `dead_letters` counts the removed dead letters, `dead_letters_expired` the pending ones that expired. `jobs` are the
    ids of the first 10 000 jobs. `seconds` is the duration.
    """

    dry_run: bool
    archived: int
    deleted: int
    history: int
    steps: int
    dead_letters: int
    dead_letters_expired: int
    dropped: list[str]
    jobs: list[str]
    seconds: float


class ArchivePartition(Struct, frozen=True):
    """A partition of the archive. `since` and `until` bound the finish of its jobs; both are None for the default
    partition. `bytes` is its size."""

    name: str
    since: datetime | None
    until: datetime | None
    jobs: int
    bytes: int


class ArchiveMonth(Struct, frozen=True):
    """The archived jobs that finished in a month, such as "2026-11", and their size.

    The month is None for the default partition. The size of a partition over two months is divided by the number of
    jobs.
    """

    month: str | None
    jobs: int
    bytes: int


class TaskDurations(Struct, frozen=True):
    """How long the archived jobs of a task ran, in seconds."""

    task: str
    jobs: int
    average: float
    p95: float
    longest: float


class ArchiveStats(Struct, frozen=True, kw_only=True):
    """The size of the archive, and the last retention run of a worker (None without one)."""

    jobs: int
    bytes: int
    partitions: int
    swept_at: datetime | None
    seconds: float | None
    archived: int
    deleted: int
    dead_letters: int
    partition: str | None
    dropped: list[str]
