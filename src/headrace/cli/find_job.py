"""Finds a job by its id or by a unique prefix of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.app.app import Headrace
from headrace.errors import InvalidJob, JobNotFound
from headrace.runtime.jobs.job import Job

MIN_PREFIX = 8
_PAGE, _PAGES = 1000, 10


def job_of(app: Headrace, text: str) -> Job[Any]:
    """The job with this id, or the only one whose id starts with it."""
    try:
        return app.jobs.get(text)
    except JobNotFound:
        if len(text) < MIN_PREFIX:
            hint = f". A prefix of an id needs at least {MIN_PREFIX} characters"
            raise JobNotFound(text, hint) from None
    found: list[Job[Any]] = []
    for job in _with_prefix(app, text):
        found.append(job)
        if len(found) > 1:
            raise InvalidJob(
                f"{text!r} is a prefix of several job ids, such as {found[0].id} and {job.id}; give more characters"
            )
    if not found:
        raise JobNotFound(text)
    return found[0]


def _with_prefix(app: Headrace, text: str) -> Iterator[Job[Any]]:
    cursor = None
    for _ in range(_PAGES):
        page = app.jobs.find(text=text, limit=_PAGE, cursor=cursor)
        yield from (job for job in page if job.id.startswith(text))
        cursor = page.cursor
        if cursor is None:
            return
