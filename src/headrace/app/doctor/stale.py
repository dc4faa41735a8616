"""Findings about stale jobs."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.app.app import Headrace
from headrace.core.health.findings import Finding

_LIMIT = 1000


def findings(app: Headrace) -> Iterator[Finding]:
    """Stale jobs left for review, and those that workers end now or soon."""
    found = app.lifecycle.detect_stale(warnings=True, limit=_LIMIT)
    for_review = sum(job.is_stale and job.action == "review" for job in found)
    ending = sum(job.is_stale and job.action != "review" for job in found)
    nearly = sum(not job.is_stale for job in found)
    more = " or more" if len(found) == _LIMIT else ""
    if for_review:
        sentence = f"{_jobs(for_review, more)} stale, for you to review"
        yield Finding(code="stale", sentence=sentence, advice="list them with `headrace stale`", count=for_review)
    if ending:
        yield _of_ending(_jobs(ending, more), ending, is_checked=bool(app.settings.stale_check))
    if nearly:
        yield Finding(
            code="nearly_stale",
            sentence=f"{_jobs(nearly, more)} nearly stale",
            advice="list them with `headrace stale --warnings`",
            count=nearly,
            note=True,
        )


def _of_ending(jobs: str, count: int, *, is_checked: bool) -> Finding:
    if is_checked:
        advice = "the next check applies their on_stale action"
        return Finding(code="stale_ending", sentence=f"{jobs} stale", advice=advice, count=count, note=True)
    return Finding(
        code="stale_check_off",
        sentence=f"{jobs} stale, and workers do not check: `stale_check` is off",
        advice="end them with `headrace stale --apply`",
        count=count,
    )


def _jobs(count: int, more: str) -> str:
    return f"1 job{more} is" if count == 1 and not more else f"{count}{more} jobs are"
