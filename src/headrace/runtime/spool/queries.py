"""Reads of a spool for handles and operators. It never changes the file, and never creates it."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from headrace.core.clock import to_datetime
from headrace.core.jobs.records import NewJob
from headrace.engines.sqlite_file.database import scalar
from headrace.runtime.spool.file import COUNT, SpoolFile, job_in


class RefusedJob(Struct, frozen=True):
    """A job that the store refused, and why."""

    job: NewJob
    reason: str
    at: int


class SpoolStats(Struct, frozen=True, kw_only=True):
    """The spool for an operator: how many jobs wait, since when, and what went wrong.

    `error` is why the last try to forward them failed. `duplicates` were dropped, since another job had the same id
    first. `others` are jobs that wait in the same file for other stores.
    """

    file: str
    limit: int
    waiting: int = 0
    since: datetime | None = None
    error: str | None = None
    error_at: datetime | None = None
    duplicates: int = 0
    refused: int = 0
    refusal: str | None = None
    others: dict[str, int] = {}


class SpoolQueries:
    """Reads the jobs of one store."""

    def __init__(self, file: SpoolFile) -> None:
        self._file = file
        self._values = {"store": file.address}

    def find(self, job_id: str) -> NewJob | RefusedJob | None:
        """The job if it waits here, or if it was refused."""
        if not self._is_there():
            return None
        values = {**self._values, "id": job_id}
        with self._file.store.reading() as db:
            if row := db.execute("SELECT job FROM spooled WHERE store = :store AND id = :id", values).fetchone():
                return job_in(row[0])
            row = db.execute(_REFUSAL, values).fetchone()
        job = job_in(row[0]) if row else None
        return None if job is None else RefusedJob(job, row[1], row[2])

    def place(self, job_id: str) -> tuple[int, str | None]:
        """How many jobs are in front of this one, and why they wait; None if they are being forwarded."""
        if not self._is_there():
            return 0, None
        with self._file.store.reading() as db:
            in_front = scalar(db, _IN_FRONT, {**self._values, "id": job_id})
            row = db.execute("SELECT error FROM stores WHERE store = :store", self._values).fetchone()
        return in_front, row[0] if row else None

    def count(self) -> int:
        """How many jobs wait."""
        if not self._is_there():
            return 0
        with self._file.store.reading() as db:
            return int(scalar(db, COUNT, self._values))

    def stats(self) -> SpoolStats:
        """Everything an operator should know."""
        if not self._is_there():
            return SpoolStats(file=str(self._file.path), limit=self._file.limit)
        with self._file.store.reading() as db:
            waiting, since = db.execute(_WAITING, self._values).fetchone()
            refused, refusal, _ = db.execute(_REFUSED, self._values).fetchone()
            row = db.execute(_STATUS, self._values).fetchone()
            others = dict(db.execute(_OTHERS, self._values).fetchall())
        duplicates, error, error_at = row or (0, None, None)
        return SpoolStats(
            file=str(self._file.path),
            limit=self._file.limit,
            waiting=waiting,
            since=to_datetime(since),
            error=error,
            error_at=to_datetime(error_at),
            duplicates=duplicates,
            refused=refused,
            refusal=refusal,
            others=others,
        )

    def _is_there(self) -> bool:
        if not self._file.exists:
            return False
        self._file.prepare()
        return True


_WAITING = "SELECT count(*), min(at) FROM spooled WHERE store = :store"
_IN_FRONT = """SELECT count(*) FROM spooled WHERE store = :store
               AND seq < (SELECT seq FROM spooled WHERE store = :store AND id = :id)"""
_REFUSAL = "SELECT job, reason, refused_at FROM refused WHERE store = :store AND id = :id"
_REFUSED = "SELECT count(*), reason, max(refused_at) FROM refused WHERE store = :store"  # the reason of the latest
_STATUS = "SELECT duplicates, error, error_at FROM stores WHERE store = :store"
_OTHERS = "SELECT store, count(*) FROM spooled WHERE store <> :store GROUP BY store ORDER BY store"
