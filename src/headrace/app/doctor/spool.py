"""Findings about jobs in this machine's spool."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.core.health.findings import Finding
from headrace.core.text import counted
from headrace.errors import HeadraceError
from headrace.runtime.spool.queries import SpoolStats
from headrace.runtime.spool.spool import Spool

_NEARLY_FULL = 0.9


def findings(spool: Spool | None) -> Iterator[Finding]:
    """No findings without a spool or without a server."""
    if spool is None:
        return
    try:
        stats, error = spool.stats(), spool.check()
    except HeadraceError as failure:
        stats, error = None, str(failure)
    if error is not None:
        yield Finding(code="spool_unusable", sentence=error, advice="while the server is away, enqueue() fails")
    if stats is not None:
        yield from _of_waiting(stats)
        yield from _of_others(stats)


def _of_waiting(stats: SpoolStats) -> Iterator[Finding]:
    if stats.waiting and stats.error:
        waiting = counted(stats.waiting, "job waits", "jobs wait")
        yield Finding(
            code="spool_waiting",
            sentence=f"{waiting} in the spool since {stats.since}: {stats.error}",
            advice="they are forwarded when the server returns",
            count=stats.waiting,
        )
    elif stats.waiting:
        yield Finding(
            code="spool_forwarding",
            sentence=f"{counted(stats.waiting, 'job of the spool is', 'jobs of the spool are')} being forwarded",
            advice="no action is needed",
            count=stats.waiting,
            note=True,
        )
    if stats.waiting > stats.limit * _NEARLY_FULL:
        yield Finding(
            code="spool_full",
            sentence="the spool is nearly full",
            advice=f"it refuses jobs beyond {stats.limit} (spool_limit)",
        )
    if stats.refused:
        yield Finding(
            code="spool_refused",
            sentence=f"the server refused {counted(stats.refused, 'forwarded job')}, the last one with {stats.refusal}",
            advice=f"they are in the table `refused` of {stats.file}",
            count=stats.refused,
        )


def _of_others(stats: SpoolStats) -> Iterator[Finding]:
    if stats.duplicates:
        yield Finding(
            code="spool_duplicates",
            sentence=f"{counted(stats.duplicates, 'job of the spool was', 'jobs of the spool were')} dropped",
            advice="the store already had jobs with their ids",
            count=stats.duplicates,
            note=True,
        )
    for store, count in stats.others.items():
        yield Finding(
            code="spool_others",
            sentence=f"{counted(count, 'job waits', 'jobs wait')} in the same spool for {store}",
            advice="an app with that URL forwards them",
            count=count,
            note=True,
        )
