"""Text search over HTTP. It searches jobs as shown, because a search in the store would also match redacted secrets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from headrace.app.app import Headrace
from headrace.app.jobs.jobs import JobPage
from headrace.app.jobs.records import shown_texts
from headrace.core.jobs.count import JobCount
from headrace.errors import InvalidJob
from headrace.runtime.jobs.job import Job

_BATCH = 200
_MAX_SCANNED = 20_000  # jobs a bulk action scans for matches


def find(
    app: Headrace, filters: Mapping[str, Any], *, limit: int, cursor: str | None, reach: int, archived: bool = False
) -> JobPage:
    """The matching jobs, newest first. It scans about `reach` jobs; the cursor continues after them."""
    text, other_filters = _split_text(filters)
    if text is None or archived:
        return app.jobs.find(limit=limit, cursor=cursor, archived=archived, reach=reach, **filters)
    found: list[Job[Any]] = []
    searched = 0
    for page in _pages(app, other_filters, cursor, reach):
        # A page without an index read more jobs than it has.
        searched = min(searched + max(page.searched or 0, len(page)), reach)
        for job in page:
            if text in shown_texts(job):
                found.append(job)
            if len(found) == limit:
                return JobPage(found, str(job.row.seq))
        cursor = page.cursor
    return JobPage(found, cursor, searched if cursor is not None else None)


def count_up_to(app: Headrace, reach: int, filters: Mapping[str, Any]) -> JobCount:
    """The number of matches among about `reach` jobs."""
    if "text" not in filters:
        return app.jobs.count_up_to(reach, **filters)
    page = find(app, filters, limit=reach, cursor=None, reach=reach)
    return JobCount(len(page), page.cursor is None)


def with_ids_for_text(app: Headrace, filters: Mapping[str, Any]) -> dict[str, Any]:
    """The filters of an action with the text replaced by the ids of the matching jobs."""
    if "text" not in filters:
        return dict(filters)
    page = find(app, filters, limit=_MAX_SCANNED, cursor=None, reach=_MAX_SCANNED)
    if page.cursor is not None:
        raise InvalidJob(f"text: more than {_MAX_SCANNED} jobs to search; add another filter")
    return {**_split_text(filters)[1], "ids": [job.id for job in page]}


def _split_text(filters: Mapping[str, Any]) -> tuple[str | None, dict[str, Any]]:
    return filters.get("text"), {name: value for name, value in filters.items() if name != "text"}


def _pages(app: Headrace, filters: Mapping[str, Any], cursor: str | None, reach: int) -> Iterator[JobPage]:
    remaining = reach
    while remaining > 0:
        page = app.jobs.find(limit=min(_BATCH, remaining), cursor=cursor, reach=remaining, whole=True, **filters)
        yield page
        if page.cursor is None:
            return
        cursor, remaining = page.cursor, remaining - max(len(page), 1)
