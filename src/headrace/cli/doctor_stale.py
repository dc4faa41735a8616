"""What the doctor finds about jobs that stay too long."""

from __future__ import annotations

from headrace.app.app import Headrace

_MOST = 1000


def look_at_stale(app: Headrace, findings: list[str], remarks: list[str]) -> None:
    """Add what waits for a person, and what will be, or may soon be, ended."""
    found = app.lifecycle.detect_stale(warnings=True, limit=_MOST)
    for_people = sum(job.is_stale and job.action == "review" for job in found)
    ending = sum(job.is_stale and job.action != "review" for job in found)
    nearly = sum(not job.is_stale for job in found)
    more = " or more" if len(found) == _MOST else ""
    if for_people:
        findings.append(f"{_jobs(for_people, more)} stale, and left to you; look at them with `headrace stale`")
    if ending and app.settings.stale_check:
        remarks.append(f"{_jobs(ending, more)} stale; the next check of a worker ends them as their terms say")
    elif ending:
        findings.append(
            f"{_jobs(ending, more)} stale, and no worker looks for them: `stale_check` is off; end them with "
            "`headrace stale --apply`"
        )
    if nearly:
        remarks.append(f"{_jobs(nearly, more)} nearly stale; look at them with `headrace stale --warnings`")


def _jobs(count: int, more: str) -> str:
    return f"1 job{more} is" if count == 1 and not more else f"{count}{more} jobs are"
