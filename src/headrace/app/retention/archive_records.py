"""What the facade of lifecycles hands out about the archive."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct


class ArchiveRun(Struct, frozen=True, kw_only=True):
    """What a sweep did or, as a dry run, would do: how many jobs it archived, and how many it only deleted.

    `dead_letters` is how many closed ones it removed, `dead_letters_expired` how many pending ones it closed because
    nobody looked into them in time. `jobs` are the ids of the first 10 000 of them. `seconds` is how long it took.
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
    """A partition of the archive. `since` and `until` bound the ends of its jobs; both are None for the rest, whose
    own partition could not be made. `bytes` is the space it takes."""

    name: str
    since: datetime | None
    until: datetime | None
    jobs: int
    bytes: int


class ArchiveMonth(Struct, frozen=True):
    """The archived jobs that ended in a month, such as "2026-11", and the space they take.

    The month is None for the rest, whose own partition could not be made. A partition over two months is shared out
    by the number of jobs.
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
    """What the archive holds, and what the last sweep of a worker did (None if there was none)."""

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
