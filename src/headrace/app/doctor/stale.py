"""Findings about stale jobs."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.health.findings import Finding

_MOST = 1000


def findings(app: Headrace) -> Iterator[Finding]:
    """Stale jobs left for review, and those that workers end now or soon."""
    found = app.lifecycle.detect_stale(warnings=True, limit=_MOST)
    for_people = sum(job.is_stale and job.action == "review" for job in found)
    ending = sum(job.is_stale and job.action != "review" for job in found)
    nearly = sum(not job.is_stale for job in found)
    more = " or more" if len(found) == _MOST else ""
    if for_people:
        sentence = f"{_jobs(for_people, more)} stale, and left to you"
        yield Finding(code="stale", sentence=sentence, advice="look at them with `headrace stale`", count=for_people)
    if ending:
        yield _of_ending(_jobs(ending, more), ending, is_looked_for=bool(app.settings.stale_check))
    if nearly:
        yield Finding(
            code="nearly_stale",
            sentence=f"{_jobs(nearly, more)} nearly stale",
            advice="look at them with `headrace stale --warnings`",
            count=nearly,
            note=True,
        )


def _of_ending(jobs: str, count: int, *, is_looked_for: bool) -> Finding:
    if is_looked_for:
        advice = "the next check of a worker ends them as their terms say"
        return Finding(code="stale_ending", sentence=f"{jobs} stale", advice=advice, count=count, note=True)
    return Finding(
        code="stale_check_off",
        sentence=f"{jobs} stale, and no worker looks for them: `stale_check` is off",
        advice="end them with `headrace stale --apply`",
        count=count,
    )


def _jobs(count: int, more: str) -> str:
    return f"1 job{more} is" if count == 1 and not more else f"{count}{more} jobs are"
