"""Overview: health and key figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from headrace.app.app import Headrace
from headrace.app.queues.queues import QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.jobs.states import State
from headrace.web.pages import chart_data as figures
from headrace.web.pages import charts, formatting
from headrace.web.pages.job_view import JobSummary, cards
from headrace.web.pages.page_cache import totals
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View

RECENT = 8
_OLD = 300.0  # seconds of waiting after which the oldest pending job is a warning


class Tile(Struct, frozen=True, kw_only=True):
    """One key figure."""

    key: str
    name: str
    value: str
    link: str
    exact: str = ""
    note: str = ""
    moment: datetime | None = None
    symbol: str = ""
    drawn: Markup | None = None


class OverviewWarning(Struct, frozen=True, kw_only=True):
    """A warning with a link."""

    text: str
    link: str = ""
    label: str = "Look"
    grave: bool = False


def show(visit: PageRequest) -> Mapping[str, Any]:
    queues, workers = visit.page_cache.queues(), visit.page_cache.workers()
    count = totals(queues)
    return {
        "queues": sorted(queues, key=_pressing),
        "workers": workers,
        "troubles": list(troubles(visit, queues, workers)),
        "words": _calm_words(queues, workers),
        "tiles": list(_tiles(visit, count, queues, workers)),
        "figures": figures.standard(visit, figures.window_of(visit)),
        "window": figures.window_of(visit),
        "windows": figures.WINDOWS,
        "drained": drained_in(visit),
        "failures": visit.page_cache.shared(recent, visit.app, State.FAILED),
        "running": visit.page_cache.shared(recent, visit.app, State.RUNNING),
    }


def recent(app: Headrace, state: State) -> list[JobSummary]:
    """The newest jobs in a state."""
    return cards(app.jobs.find(state=state, limit=RECENT), app)


def drained_in(visit: PageRequest) -> dict[str, str]:
    """The time until each queue is empty at the rate of the last minute."""
    known = visit.page_cache.metrics() if visit.app.settings.events else None
    waiting = [] if known is None else [figures for figures in known.queues if figures.eta != 0]
    return {figures.queue: "never" if figures.eta is None else formatting.span(figures.eta) for figures in waiting}


def _pressing(stats: QueueStats) -> tuple[int, str]:
    return -(stats.pending + stats.running + stats.retrying), stats.queue


def troubles(
    visit: PageRequest, queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]
) -> Iterator[OverviewWarning]:
    """Warnings, most severe first: alerts and obvious problems."""
    firing = [alert for alert in visit.page_cache.alerts() if alert.state in ("firing", "acknowledged")]
    for alert in firing:
        if alert.state == "firing" and not alert.silenced:
            yield OverviewWarning(text=alert.summary, link=visit.at("/alerts"), grave=alert.severity == "critical")
    told = {alert.labels.get("queue") for alert in firing if alert.rule == "no_worker"}  # or silenced
    yield from _of_workers(visit, [stats for stats in queues if stats.queue not in told], workers)
    for stats in queues:
        link = visit.at(f"/queues/{stats.queue}")
        waits = 0.0 if stats.oldest_pending is None else (visit.now - stats.oldest_pending).total_seconds()
        if stats.paused:
            rest = f" with {formatting.exact(stats.pending)} pending." if stats.pending else "."
            yield OverviewWarning(text=f"Queue {stats.queue} is paused{rest}", link=link)
        elif stats.workers and waits > _OLD:
            yield OverviewWarning(
                text=f"In queue {stats.queue} a job has been pending for {formatting.span(waits)}.", link=link
            )


def _of_workers(
    visit: PageRequest, queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]
) -> Iterator[OverviewWarning]:
    pending = sum(stats.pending for stats in queues)
    if pending and all(worker.silent for worker in workers):
        text = f"No worker is alive, and {formatting.exact(pending)} jobs are pending. Start one with: headrace worker"
        yield OverviewWarning(text=text, link=visit.at("/workers"), grave=True)
        return
    for stats in queues:
        if stats.pending and not stats.workers and not stats.paused:
            text = (
                f"No live worker serves queue {stats.queue}, where {formatting.exact(stats.pending)} jobs are pending."
            )
            yield OverviewWarning(text=text, link=visit.at(f"/queues/{stats.queue}"), grave=True)
    for worker in workers:
        if worker.silent:
            text = f"Worker {worker.id} missed its heartbeats; another one takes over its jobs."
            yield OverviewWarning(text=text, link=visit.at(f"/workers/{worker.id}"), grave=True)
        elif worker.stalled:
            text = f"Worker {worker.id} is alive, but stalled in part: {', '.join(worker.stalled)}. Restart it."
            yield OverviewWarning(text=text, link=visit.at(f"/workers/{worker.id}"), grave=True)


def _calm_words(queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]) -> str:
    one = "worker is" if len(workers) == 1 else "workers are"
    serve = "queue" if len(queues) == 1 else "queues"
    return f"{len(workers)} {one} alive for {len(queues)} {serve}." if workers else "Nothing is waiting."


def _tiles(
    visit: PageRequest, count: Mapping[str, int], queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]
) -> Iterator[Tile]:
    oldest = min((stats.oldest_pending for stats in queues if stats.oldest_pending), default=None)
    slots = sum(worker.concurrency for worker in workers if not worker.silent)
    busy = sum(worker.running for worker in workers if not worker.silent)
    yield Tile(
        **_counted(visit, count, State.PENDING),
        note="oldest " if oldest else "nothing waits",
        moment=oldest,
        drawn=_spark(visit, "depth", "Pending jobs in the last hour", "pending"),
    )
    yield Tile(
        **_counted(visit, count, State.RUNNING),
        note=f"{busy} of {slots} slots busy" if slots else "no worker",
        drawn=charts.gauge(busy / slots, f"{busy} of {slots} slots busy", "running") if slots else None,
    )
    later = count[State.SCHEDULED] + count[State.WAITING]
    yield Tile(**_counted(visit, count, State.RETRYING), note=f"{formatting.brief(later)} for later")
    yield Tile(
        **_counted(visit, count, State.FAILED),
        note="kept in the store",
        drawn=_spark(visit, "failure_rate", "Failures a second in the last hour", "failed"),
    )
    kept = f"{formatting.brief(count[State.COMPLETED])} kept"
    known = visit.page_cache.metrics() if visit.app.settings.events else None
    if known is None:
        yield Tile(**_counted(visit, count, State.COMPLETED), note="kept in the store")
        return
    last = known.total
    yield Tile(
        key="throughput",
        name="Completed",
        value=f"{formatting.brief(round(last.throughput, 2))}/s",
        note=kept,
        link=visit.at("/jobs", state="completed"),
        symbol="completed",
        drawn=_spark(visit, "throughput", "Completed jobs a second in the last hour", "completed"),
    )
    yield Tile(
        key="errors",
        name="Error rate",
        value=formatting.share(last.error_rate),
        note="in the last minute",
        link=visit.at("/jobs", state="failed"),
        symbol="warn",
        drawn=_spark(visit, "error_rate", "Share of attempts that failed in the last hour", "failed"),
    )


def _counted(visit: PageRequest, count: Mapping[str, int], state: State) -> dict[str, Any]:
    return {
        "key": state.value,
        "name": state.value.capitalize(),
        "value": formatting.brief(count[state]),
        "exact": formatting.exact(count[state]),
        "link": visit.at("/jobs", state=state.value),
        "symbol": state.value,
    }


def _spark(visit: PageRequest, metric: str, title: str, look: str) -> Markup | None:
    points = figures.curve(visit, metric, "1h")
    return charts.sparkline(figures.values(points), title, look) if figures.has_data(points) else None


VIEWS = [View(path="/", template="overview.html", show=show, label="Overview", icon="overview", key="o")]
