"""Charts of pages, from the app's metrics. Without metrics (events are off, or nothing is aggregated yet) a page shows
no chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from markupsafe import Markup
from msgspec import Struct, json

from headrace.web.pages import charts, formatting
from headrace.web.pages.charts import ChartLine, Point
from headrace.web.pages.request import PageRequest

WINDOWS = {"15m": "15 min", "1h": "1 hour", "6h": "6 hours", "24h": "24 hours", "7d": "7 days"}


class Chart(Struct, frozen=True):
    """A drawing with its axes and legend."""

    key: str
    title: str
    lines: Sequence[ChartLine]
    svg: Markup
    top: str
    middle: str
    moments: list[datetime]
    data: str


def chart(
    key: str, title: str, lines: Sequence[ChartLine], format_value: Callable[[float | None], str] = formatting.brief
) -> Chart:
    """One chart of lines with common times; `format_value` formats a value."""
    top = charts.ceiling(point.value for line in lines for point in line.points)
    moments = [point.at for point in lines[0].points]
    data = {
        "times": [formatting.iso(moment) for moment in moments],
        "lines": [{"name": line.name, "texts": [format_value(point.value) for point in line.points]} for line in lines],
    }
    labels = [moments[0], moments[len(moments) // 2], moments[-1]] if len(moments) > 2 else moments
    svg = charts.series(lines, title)
    return Chart(key, title, lines, svg, format_value(top), format_value(top / 2), labels, json.encode(data).decode())


def curve(request: PageRequest, metric: str, window: str, **filters: str | None) -> list[Point]:
    """One metric over time; empty without data."""
    series = request.page_cache.series(metric, window, **filters) if request.app.settings.events else None
    return [] if series is None else [Point(point.at, point.value) for point in series.points]


def values(points: Sequence[Point]) -> list[float | None]:
    return [point.value for point in points]


def has_data(*curves: Sequence[Point]) -> bool:
    return any(point.value is not None for points in curves for point in points)


def queue_charts(request: PageRequest, window: str, **filters: str | None) -> list[Chart]:
    """Charts of one queue or all queues: rates, failures, wait and run times."""
    curves: Mapping[str, list[Point]] = {
        name: curve(request, name, window, **filters)
        for name in ("enqueue_rate", "throughput", "failure_rate", "wait_p50", "wait_p95", "run_p50", "run_p95")
    }
    if not all(curves.values()) or not has_data(*curves.values()):
        return []
    rates = [
        ChartLine("enqueued", curves["enqueue_rate"], "pending"),
        ChartLine("completed", curves["throughput"], "completed"),
        ChartLine("failed", curves["failure_rate"], "failed"),
    ]
    waits = [ChartLine("p50", curves["wait_p50"], "accent"), ChartLine("p95", curves["wait_p95"], "retrying")]
    runs = [ChartLine("p50", curves["run_p50"], "accent"), ChartLine("p95", curves["run_p95"], "running")]
    return [
        chart("rates", "Jobs a second", rates),
        chart("waits", "Time waited", waits, formatting.span),
        chart("runs", "Time run", runs, formatting.span),
    ]


def worker_charts(request: PageRequest, window: str, worker: str) -> list[Chart]:
    """Charts of one worker."""
    rates = [
        ChartLine("completed", curve(request, "throughput", window, worker=worker), "completed"),
        ChartLine("failed", curve(request, "failure_rate", window, worker=worker), "failed"),
    ]
    runs = [
        ChartLine("p50", curve(request, "run_p50", window, worker=worker), "accent"),
        ChartLine("p95", curve(request, "run_p95", window, worker=worker), "running"),
    ]
    lines = [line.points for line in (*rates, *runs)]
    if not all(lines) or not has_data(*lines):
        return []
    return [chart("rates", "Jobs a second", rates), chart("runs", "Time run", runs, formatting.span)]


def window_of(request: PageRequest) -> str:
    window = request.query("window")
    return window if window in WINDOWS else "1h"
