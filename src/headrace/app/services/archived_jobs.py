"""Archived jobs for the rest of the app: read with history and logs, and delete."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from headrace.core.jobs.records import Filter, JobRow, JobRowPage
from headrace.core.retention.archive import ArchivedJob, ArchiveRow, key_of, shown
from headrace.engines.protocol.archive import Archive
from headrace.engines.protocol.engine import Engine
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import ARCHIVED

_MAX_PER_ID = 100  # jobs that may have had the same id over time
_UNSUPPORTED_FILTERS = ("worker", "text", "flow")


def archived_row(archive: Archive | None, job_id: str) -> JobRow | None:
    """The archived job, or None."""
    found = archived_job(archive, job_id)
    return None if found is None else replace(found.job, seq=ARCHIVED)


def archived_job(archive: Archive | None, job_id: str, created_at: int | None = None) -> ArchivedJob | None:
    """The full job; `created_at` selects one of several with the same id."""
    if archive is None:
        return None
    rows = archive.find(Filter(ids=(job_id,)), 1 if created_at is None else _MAX_PER_ID).rows
    found = next((row for row in rows if created_at in (None, row.created_at)), None)
    return None if found is None else shown(found)


def find(engine: Engine, archive: Archive | None, which: Filter, limit: int, cursor: str | None) -> JobRowPage:
    """Matching archived jobs, newest finish first, without those that are also live."""
    refuse_unsupported(which)
    if archive is None:
        return JobRowPage([], None)
    page = archive.find(which, limit, cursor)
    return JobRowPage([replace(shown(row).job, seq=ARCHIVED) for row in only_archived(engine, page.rows)], page.cursor)


def only_archived(engine: Engine, rows: Sequence[ArchiveRow]) -> list[ArchiveRow]:
    """Drop those whose job is live: a retention run may have been interrupted before the deletion."""
    live = (
        {(job.id, job.created_at) for job in engine.queries.get([row.id for row in rows], light=True)}
        if rows
        else set()
    )
    return [row for row in rows if (row.id, row.created_at) not in live]


def delete(engine: Engine, archive: Archive | None, ids: Sequence[str]) -> list[str]:
    """Delete these jobs from the archive; returns the ids of those that existed only there."""
    if archive is None:
        return []
    rows = only_archived(engine, archive.find(Filter(ids=tuple(ids)), _MAX_PER_ID * len(ids)).rows)
    archive.remove([key_of(row) for row in rows])
    return sorted({row.id for row in rows})


def refuse_unsupported(which: Filter) -> None:
    for name in _UNSUPPORTED_FILTERS:
        if getattr(which, name) is not None:
            raise InvalidJob(
                f"{name}: archived jobs have no such filter; use ids, state, queue, task, tag, args, since and until"
            )
