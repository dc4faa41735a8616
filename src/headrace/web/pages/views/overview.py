"""Overview: health and key figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from markupsafe import Markup
from msgspec import Struct

from headrace.app.alerts.records import Alert
from headrace.app.app import Headrace
from headrace.app.metrics.records import QueueMetrics
from headrace.app.queues.queues import QueueStats
from headrace.app.workers import WorkerInfo
from headrace.core.jobs.states import State
from headrace.core.urls import redacted_url
from headrace.web.pages import chart_data, charts, formatting
from headrace.web.pages.job_view import JobSummary, summaries
from headrace.web.pages.page_cache import totals
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import View
from headrace.web.pages.views.breakers import failed_breakers

RECENT = 8
_MAX_SHOWN = 3  # warnings that are visible at once
_MAX_OF_RULE = 2  # alerts of one rule with a line of their own
_MANY = 100  # pending jobs from which a growing queue is a warning
_LONG_WAIT = 300.0  # seconds of waiting after which the oldest pending job is a warning


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
    chart: Markup | None = None


class OverviewWarning(Struct, frozen=True, kw_only=True):
    """A warning with a link."""

    text: str
    link: str = ""
    subject: str = ""
    critical: bool = False


def show(request: PageRequest) -> Mapping[str, Any]:
    queues, workers = request.page_cache.queues(), request.page_cache.workers()
    count = totals(queues)
    return {
        "queues": sorted(queues, key=_by_open_jobs),
        "workers": workers,
        "warnings": sorted(warnings(request, queues, workers), key=lambda warning: not warning.critical),
        "max_shown": _MAX_SHOWN,
        "healthy_text": _healthy_text(queues, workers),
        "first_steps": [] if queues or workers else first_steps(request.app),
        "tiles": list(_tiles(request, count, queues, workers)),
        "time_charts": chart_data.queue_charts(request, chart_data.window_of(request)),
        "window": chart_data.window_of(request),
        "windows": chart_data.WINDOWS,
        "drained": drained_in(request),
        "failures": request.page_cache.shared(recent, request.app, State.FAILED),
        "running": request.page_cache.shared(recent, request.app, State.RUNNING),
    }


def first_steps(app: Headrace) -> list[tuple[str, str]]:
    """What to do with an empty store: a sentence and a command for this store."""
    url = shlex.quote(app.settings.url)
    if redacted_url(app.settings.url) != app.settings.url:  # a command with a mask would not run
        url = '"$HEADRACE_URL"'
    task = next(iter(sorted(app.tasks)), "add")
    call = shlex.quote(task) if task in app.tasks else "add '[2, 3]'"
    return [
        ("Start a worker, where your code is:", f"headrace worker --app tasks:app --url {url}"),
        ("Enqueue a job of one of your tasks:", f"headrace enqueue {call} --url {url}"),
        ("Ask why a job does not run:", f"headrace why ID --url {url}"),
    ]


def recent(app: Headrace, state: State) -> list[JobSummary]:
    """The newest jobs in a state."""
    return summaries(app.jobs.find(state=state, limit=RECENT), app)


def drained_in(request: PageRequest) -> dict[str, str]:
    """The time until each queue is empty at the rate of the last minute, or how fast it grows."""
    metrics = request.page_cache.metrics() if request.app.settings.events else None
    waiting = [] if metrics is None else [queue_metrics for queue_metrics in metrics.queues if queue_metrics.eta != 0]
    return {
        queue_metrics.queue: drained_text(queue_metrics, growth_of(queue_metrics, metrics.window if metrics else 60.0))
        for queue_metrics in waiting
    }


def growth_of(queue_metrics: QueueMetrics, window: float) -> int:
    """By how many jobs a minute the queue grows; 0 if it does not."""
    figures = queue_metrics.figures
    finished = (figures.completed + figures.failed + figures.cancelled) / window
    return max(round(60 * (figures.enqueue_rate - finished)), 0)


def drained_text(queue_metrics: QueueMetrics, growth: int) -> str:
    if queue_metrics.eta is not None:
        return formatting.span(queue_metrics.eta)
    return f"grows by {formatting.brief(growth)} a minute" if growth else "never"


def growing(request: PageRequest) -> dict[str, int]:
    """The queues that grow, by how many jobs a minute."""
    metrics = request.page_cache.metrics() if request.app.settings.events else None
    if metrics is None:
        return {}
    found = {one.queue: growth_of(one, metrics.window) for one in metrics.queues if one.eta is None}
    return {queue: growth for queue, growth in found.items() if growth}


def _by_open_jobs(stats: QueueStats) -> tuple[int, str]:
    return -(stats.pending + stats.running + stats.retrying), stats.queue


def warnings(
    request: PageRequest, queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]
) -> Iterator[OverviewWarning]:
    """Warnings, most severe first: alerts and obvious problems."""
    firing = [alert for alert in request.page_cache.alerts() if alert.state in ("firing", "acknowledged")]
    yield from _alert_warnings(request, [one for one in firing if one.state == "firing" and not one.silenced])
    # A fact that an alert states, even a silenced one, is not stated again.
    covered = {(alert.rule, alert.labels.get("queue")) for alert in firing}
    served = [stats for stats in queues if ("no_worker", stats.queue) not in covered]
    yield from _worker_warnings(request, served, workers)
    for breaker in failed_breakers(request):
        if breaker.state == "open":
            yield OverviewWarning(text=f"Breaker {breaker.name} is {breaker.summary}.", link=request.url("/tasks"))
    growth = growing(request)
    for stats in queues:
        link = request.url(f"/queues/{stats.queue}")
        waiting_time = 0.0 if stats.oldest_pending is None else (request.now - stats.oldest_pending).total_seconds()
        if stats.paused:
            pending_text = f" with {formatting.exact(stats.pending)} pending." if stats.pending else "."
            yield OverviewWarning(text=f"Queue {stats.queue} is paused{pending_text}", link=link)
        elif stats.workers and stats.pending >= _MANY and growth.get(stats.queue):
            pace, pending_text = formatting.exact(growth[stats.queue]), formatting.exact(stats.pending)
            text = f"Queue {stats.queue} grows by {pace} a minute; {pending_text} jobs are pending."
            yield OverviewWarning(text=text, link=link)
        elif stats.workers and waiting_time > _LONG_WAIT and ("oldest_job", stats.queue) not in covered:
            yield OverviewWarning(
                text=f"In queue {stats.queue} a job has been pending for {formatting.span(waiting_time)}.", link=link
            )


def _alert_warnings(request: PageRequest, firing: Sequence[Alert]) -> Iterator[OverviewWarning]:
    """A line for each rule and subject; many alerts of one rule are one line."""
    bursts = {alert.labels.get("task") for alert in firing if alert.rule == "dead_letter_burst"}
    by_rule: dict[str, list[Alert]] = {}
    for alert in firing:
        if alert.rule != "dead_letter" or alert.labels.get("task") not in bursts:
            by_rule.setdefault(alert.rule, []).append(alert)
    for rule, alerts in by_rule.items():
        shown = alerts[:1] if len(alerts) > _MAX_OF_RULE else alerts
        for alert in shown:
            more = f", and {len(alerts) - 1} more like this" if len(alerts) > _MAX_OF_RULE else ""
            yield OverviewWarning(
                text=f"{alert.summary}{more}",
                subject=rule,
                link=request.url("/alerts", rule=rule),
                critical=alert.severity == "critical",
            )


def _worker_warnings(
    request: PageRequest, queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]
) -> Iterator[OverviewWarning]:
    pending = sum(stats.pending for stats in queues)
    if pending and all(worker.silent for worker in workers):
        text = f"No worker is alive, and {_pending_text(pending)}. Start one with: headrace worker"
        yield OverviewWarning(text=text, link=request.url("/workers"), critical=True)
        return
    for stats in queues:
        if stats.pending and not stats.workers and not stats.paused:
            text = f"No live worker serves queue {stats.queue}, where {_pending_text(stats.pending)}."
            yield OverviewWarning(text=text, link=request.url(f"/queues/{stats.queue}"), critical=True)
    for worker in workers:
        if worker.silent:
            text = f"Worker {worker.id} missed its heartbeats; another one takes over its jobs."
            yield OverviewWarning(text=text, link=request.url(f"/workers/{worker.id}"), critical=True)
        elif worker.stalled:
            text = f"Worker {worker.id} is alive, but stalled in part: {', '.join(worker.stalled)}. Restart it."
            yield OverviewWarning(text=text, link=request.url(f"/workers/{worker.id}"), critical=True)


def _pending_text(count: int) -> str:
    return "1 job is pending" if count == 1 else f"{formatting.exact(count)} jobs are pending"


def _healthy_text(queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]) -> str:
    worker_noun = "worker is" if len(workers) == 1 else "workers are"
    queue_noun = "queue" if len(queues) == 1 else "queues"
    return f"{len(workers)} {worker_noun} alive for {len(queues)} {queue_noun}." if workers else "Nothing is waiting."


def _tiles(
    request: PageRequest, count: Mapping[str, int], queues: Sequence[QueueStats], workers: Sequence[WorkerInfo]
) -> Iterator[Tile]:
    oldest = min((stats.oldest_pending for stats in queues if stats.oldest_pending), default=None)
    slots = sum(worker.concurrency for worker in workers if not worker.silent)
    busy = sum(worker.running for worker in workers if not worker.silent)
    yield Tile(
        **_count_fields(request, count, State.PENDING),
        note="oldest " if oldest else "nothing waits",
        moment=oldest,
        chart=_sparkline(request, "depth", "Pending jobs in the last hour", "pending"),
    )
    yield Tile(
        **_count_fields(request, count, State.RUNNING),
        note=f"{busy} of {slots} slots busy" if slots else "no worker",
        chart=charts.gauge(busy / slots, f"{busy} of {slots} slots busy", "running") if slots else None,
    )
    later_jobs = count[State.SCHEDULED] + count[State.WAITING]
    yield Tile(
        **_count_fields(request, count, State.RETRYING), note=f"{formatting.brief(later_jobs)} scheduled or waiting"
    )
    yield Tile(
        **_count_fields(request, count, State.FAILED),
        note="kept in the store",
        chart=_sparkline(request, "failure_rate", "Failures a second in the last hour", "failed"),
    )
    kept_text = f"{formatting.brief(count[State.COMPLETED])} kept"
    metrics = request.page_cache.metrics() if request.app.settings.events else None
    if metrics is None:
        yield Tile(**_count_fields(request, count, State.COMPLETED), note="kept in the store")
        return
    totals_ = metrics.total
    yield Tile(
        key="throughput",
        name="Completed",
        value=f"{formatting.brief(round(totals_.throughput, 2))}/s",
        note=kept_text,
        link=request.url("/jobs", state="completed"),
        symbol="completed",
        chart=_sparkline(request, "throughput", "Completed jobs a second in the last hour", "completed"),
    )
    yield Tile(
        key="errors",
        name="Error rate",
        value=formatting.share(totals_.error_rate),
        note="in the last minute",
        link=request.url("/jobs", state="failed"),
        symbol="warn",
        chart=_sparkline(request, "error_rate", "Share of attempts that failed in the last hour", "failed"),
    )


def _count_fields(request: PageRequest, count: Mapping[str, int], state: State) -> dict[str, Any]:
    return {
        "key": state.value,
        "name": state.value.capitalize(),
        "value": formatting.brief(count[state]),
        "exact": formatting.exact(count[state]),
        "link": request.url("/jobs", state=state.value),
        "symbol": state.value,
    }


def _sparkline(request: PageRequest, metric: str, title: str, color: str) -> Markup | None:
    points = chart_data.curve(request, metric, "1h")
    return charts.sparkline(chart_data.values(points), title, color) if chart_data.has_data(points) else None


VIEWS = [View(path="/", template="overview.html", show=show, label="Overview", icon="overview", key="o")]
