"""`headrace metrics`: metrics of a store as tables, JSON, time series, daily totals or Prometheus text."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import click

from headrace.app.metrics.metrics import Metrics
from headrace.app.metrics.records import DayMetrics, MetricFigures, MetricsSnapshot, QueueMetrics, TaskMetrics
from headrace.cli.commands.metrics_scale import scale
from headrace.cli.options import as_json_option, duration, example, shared
from headrace.cli.output import Column, print_facts, print_table, say, span, stamp
from headrace.cli.resource import Output, OutputGroup, table
from headrace.core.metrics.values import NAMES

_FIGURES = (
    Column("IN/S", right=True),
    Column("OUT/S", right=True),
    Column("FAILED", right=True),
    Column("ERRORS", right=True),
    Column("TRIES", right=True),
    Column("RETRIES OK", right=True),
    Column("WAIT P50", right=True),
    Column("P95", right=True),
    Column("RUN P50", right=True),
    Column("P95", right=True),
    Column("P99", right=True),
)
_QUEUES = (
    Column("QUEUE", min_width=8),
    Column("PENDING", right=True),
    Column("OLDEST", right=True),
    Column("EMPTY IN", right=True),
    *_FIGURES,
)
_TASKS = (Column("TASK", min_width=8), Column("QUEUE", min_width=8), *_FIGURES)
_DAYS = (
    Column("DAY"),
    *(
        Column(title, right=True)
        for title in ("ENQUEUED", "COMPLETED", "FAILED", "RETRIED", "ERRORS", "RUN AVG", "P95")
    ),
    Column("MOST PENDING", right=True),
)


@click.group(
    "metrics",
    cls=OutputGroup,
    invoke_without_command=True,
    epilog=example(
        "headrace metrics",
        "headrace metrics scale",
        "headrace metrics --queue mail --window 15m",
        "headrace metrics --series run_p95 --queue mail --window 6h",
        "headrace metrics --days 7",
        "headrace metrics --prometheus --output /var/lib/node_exporter/headrace.prom",
    ),
)
@click.option("--queue", "-q", help="Only this queue; without --series or --days, its tasks.")
@click.option("--task", "-t", help="With --series or --days: only this task.")
@click.option("--worker", help="With --series: only this worker.")
@click.option("--window", metavar="TIME", callback=duration, help="Time window: 60s (the default), 15m, 2h, 7d.")
@click.option("--series", "name", metavar="METRIC", help="This metric over time: " + ", ".join(NAMES[:8]) + ", ...")
@click.option(
    "--step", metavar="TIME", callback=duration, help="With --series: length of a data point, such as 10s or 5m."
)
@click.option("--days", type=click.IntRange(1, 366), metavar="N", help="Totals of the last N days, in UTC.")
@click.option("--prometheus", is_flag=True, help="All metrics in the text format of Prometheus.")
@click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --prometheus: write to this file atomically, for the textfile collector of node_exporter.",
)
@as_json_option
@shared
@click.pass_context
def metrics(ctx: click.Context, /, as_json: bool, **options: Any) -> int:
    """Show throughput, errors, wait and run times of the last minute, and when queues will be empty."""
    if ctx.invoked_subcommand is not None:
        if as_json or any(options.values()):
            raise click.UsageError(f"put options after {ctx.invoked_subcommand!r}", ctx)
        return 0
    _check_options(options, as_json)
    app_metrics = ctx.obj.store().metrics
    if options["prometheus"]:
        _print_prometheus(app_metrics, options["output"])
        return 0
    return _output(app_metrics, options).print(as_json)


def _output(metrics: Metrics, options: dict[str, Any]) -> Output:
    if options["name"]:
        return _series(metrics, options)
    if options["days"]:
        found = metrics.days(options["days"], queue=options["queue"], task=options["task"])
        return table(found, _DAYS, map(_day_row, found))
    if options["queue"]:
        tasks = metrics.tasks(options["queue"], window=_window(options, 60.0), limit=1000)
        return table(tasks, _TASKS, map(_task_row, tasks), "no jobs of this queue in this window; see --window")
    snapshot = metrics.snapshot(_window(options, 60.0))
    return Output(snapshot, lambda: _print_snapshot(snapshot))


metrics.add_command(scale)


def _check_options(options: dict[str, Any], as_json: bool) -> None:
    """Refuse two views at once, and options of another view."""
    views = [
        f"--{name}"
        for name, key in (("prometheus", "prometheus"), ("series", "name"), ("days", "days"))
        if options[key]
    ]
    if len(views) > 1:
        raise click.UsageError(f"use either {views[0]} or {views[1]}")
    view = views[0] if views else "none"
    allowed_views = {
        "output": ("--prometheus",),
        "task": ("--series", "--days"),
        "worker": ("--series",),
        "step": ("--series",),
        "queue": ("--series", "--days", "none"),
        "window": ("--series", "none"),
    }
    for name, views_of_option in allowed_views.items():
        if options[name] is not None and view not in views_of_option:
            needed = " or ".join(one for one in views_of_option if one != "none")
            raise click.UsageError(f"--{name} needs {needed}" if needed else f"--{name} can't be used with {view}")
    if as_json and view == "--prometheus":
        raise click.UsageError("use either --json or --prometheus")


def _window(options: dict[str, Any], default: float) -> float:
    return default if options["window"] is None else options["window"]


# -- views


def _print_snapshot(snapshot: MetricsSnapshot) -> None:
    alive = "-" if snapshot.workers_alive is None else str(snapshot.workers_alive)
    missed = _share(snapshot.schedule_misses)
    print_facts(
        [
            ("last", span(snapshot.window)),
            (
                "jobs",
                f"{snapshot.total.enqueued} in, {snapshot.total.completed} completed, {snapshot.total.failed} failed",
            ),
            ("errors", f"{_share(snapshot.total.error_rate)} of attempts"),
            ("retries", _retries(snapshot.total)),
            ("waiting", ", ".join(f"{count} {state}" for state, count in snapshot.depth.items() if count) or "nothing"),
            ("workers", alive),
            ("dead letters", "-" if snapshot.dead is None else str(snapshot.dead)),
            *([("missed runs", f"{missed} of schedules")] if snapshot.schedule_misses else []),
            *([("stale", str(snapshot.stale))] if snapshot.stale else []),
            ("schedules", _number(snapshot.schedules)),
            ("store", _store(snapshot)),
        ]
    )
    if snapshot.queues:
        say()
        print_table(_QUEUES, [_queue_row(queue) for queue in snapshot.queues])
    if snapshot.tasks:
        say()
        print_table(_TASKS, [_task_row(task) for task in snapshot.tasks])


def _series(metrics: Metrics, options: dict[str, Any]) -> Output:
    filters = {name: options[name] for name in ("queue", "task", "worker", "step")}
    series = metrics.series(options["name"], window=_window(options, 3600.0), **filters)
    maximum = max((point.value for point in series.points if point.value is not None), default=0.0)
    columns = (Column("FROM"), Column(series.name.upper(), right=True), Column("", min_width=10))
    rows = ([stamp(point.at), _number(point.value), _bar(point.value, maximum)] for point in series.points)
    return table(series, columns, rows)


def _print_prometheus(metrics: Metrics, output: Path | None) -> None:
    _, text = metrics.prometheus()
    if output is None:
        click.echo(text.decode(), nl=False)
    else:
        _write(output, text)


def _write(path: Path, text: bytes) -> None:
    """Write atomically: a concurrent reader sees the old file or the new one."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
            os.chmod(temporary, 0o644)  # node_exporter runs as another user
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise click.ClickException(f"{path} can't be written: {error.strerror or error}") from None


# -- rows


def _queue_row(queue: QueueMetrics) -> list[str]:
    pending = queue.depth.get("pending", 0)
    oldest = span(queue.oldest) if pending else "-"
    empty = "never" if queue.eta is None else span(queue.eta) if pending else "-"
    return [queue.queue, str(pending), oldest, empty, *_cells(queue.figures)]


def _task_row(task: TaskMetrics) -> list[str]:
    return [task.task, task.queue, *_cells(task.figures)]


def _cells(figures: MetricFigures) -> list[str]:
    rates = [_number(figures.enqueue_rate), _number(figures.throughput)]
    wait, run = figures.wait, figures.run
    times = [_time(seconds) for seconds in (wait.p50, wait.p95, run.p50, run.p95, run.p99)]
    retries = [_number(figures.attempts_avg), _share(figures.retry_success)]
    return [*rates, str(figures.failed), _share(figures.error_rate), *retries, *times]


def _store(snapshot: MetricsSnapshot) -> str:
    if snapshot.store_bytes is None:
        return "-"
    clients = "" if snapshot.clients is None else f", {snapshot.clients} clients"
    return f"{snapshot.store_bytes / 2**20:,.1f} MB{clients}"


def _retries(figures: MetricFigures) -> str:
    ended = f", {_share(figures.retry_success)} of retried jobs completed" if figures.retry_success is not None else ""
    tries = f", {_number(figures.attempts_avg)} attempts a job" if figures.attempts_avg is not None else ""
    return f"{figures.retried}{ended}{tries}"


def _day_row(day: DayMetrics) -> list[str]:
    figures = day.figures
    counts = [str(count) for count in (figures.enqueued, figures.completed, figures.failed, figures.retried)]
    times = [_time(figures.run.avg), _time(figures.run.p95)]
    return [
        str(day.day),
        *counts,
        _share(figures.error_rate),
        *times,
        "-" if day.max_depth is None else str(day.max_depth),
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == round(value) or value >= 100 else f"{value:.3g}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else span(seconds)


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _bar(value: float | None, maximum: float) -> str:
    return "█" * round(40 * value / maximum) if value and maximum else ""
