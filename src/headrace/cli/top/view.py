"""Drawing of `headrace top`: a full screen or plain tables. It neither queries nor changes the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.cli.output import Column, ago, one_line, paint, print_table, say, span, table_of
from headrace.cli.top.data import QueueSample, StoreSample, WorkerSample

if TYPE_CHECKING:
    from rich.console import Group, RenderableType

SORTS: dict[str, Callable[[QueueSample], object]] = {
    "name": lambda seen: seen.queue,
    "pending": lambda seen: (-seen.pending, seen.queue),
    "oldest": lambda seen: (-(seen.oldest or 0), seen.queue),
    "rate": lambda seen: (-(seen.leaving or 0), seen.queue),
}
_QUEUE_COLUMNS = (
    Column("QUEUE", min_width=8),
    Column("STATE"),
    Column("PENDING", right=True),
    Column("RUNNING", right=True),
    Column("OLDEST", right=True),
    Column("IN/s", right=True),
    Column("OUT/s", right=True),
    Column("EMPTY IN", right=True),
    Column("RETRYING", right=True),
    Column("SCHEDULED", right=True),
    Column("WAITING", right=True),
    Column("FAILED", right=True),
)
_WORKER_COLUMNS = (
    Column("WORKER", min_width=12),
    Column("STATE"),
    Column("BUSY", right=True),
    Column("LOAD"),
    Column("JOBS/s", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
    Column("UP", right=True),
    Column("ON", min_width=8),
)
_FAILURE_COLUMNS = (
    Column("AGO", right=True),
    Column("TASK", min_width=8),
    Column("ARGUMENTS", min_width=10),
    Column("QUEUE", min_width=8),
    Column("ERROR", min_width=16),
)
_MAX_CALLS = 2
_KEYS = "q quit  ↑↓ choose  p pause/resume  s sort: {sort}"


class ViewState(Struct, frozen=True):
    """The user's choices, and the messages shown."""

    sort: str = "name"
    chosen: str | None = None
    question: str | None = None
    message: str | None = None
    error: str | None = None


def sorted_queues(sample: StoreSample, view: ViewState) -> list[QueueSample]:
    return sorted(sample.queues, key=SORTS[view.sort])  # type: ignore[arg-type]  # the keys of one sort are comparable


def screen(sample: StoreSample | None, view: ViewState, width: int, height: int) -> Group:
    """The whole screen, exactly `height` lines high."""
    from rich.console import Group  # only loaded to draw

    head: list[RenderableType] = [_header(sample, view, width)]
    height_left = height - 2
    if sample is not None:
        for alert in sample.alerts[: max(height_left // 6, 1)]:
            head.append(_line(f"{alert.severity}: {one_line(alert.summary)}", "bold red", width))
            height_left -= 1
    body, used = ([], 0) if sample is None else _body(sample, view, width, height_left)
    blank = [_line("", "", width)] * max(height_left - used, 0)
    return Group(*head, *body, *blank, _footer(view, width))


def _body(sample: StoreSample, view: ViewState, width: int, height_left: int) -> tuple[list[RenderableType], int]:
    queues = sorted_queues(sample, view)
    chosen = next((n for n, queue in enumerate(queues) if queue.queue == view.chosen), None)
    lines_per_table = _lines_per_table([len(queues), len(sample.workers), len(sample.failures)], height_left)
    parts: list[RenderableType] = []
    used = 0
    tables = (
        (_QUEUE_COLUMNS, [_queue_row(queue) for queue in queues], chosen),
        (_WORKER_COLUMNS, [_worker_row(worker) for worker in sample.workers], None),
        (_FAILURE_COLUMNS, _failure_rows(sample), None),
    )
    for lines, (columns, rows, marked) in zip(lines_per_table, tables, strict=True):
        if lines < 2:
            continue
        shown, marked = _visible_rows(rows, lines - 1, marked)
        parts.append(table_of(columns, [[one_line(cell) for cell in row] for row in shown], width, marked))
        used += len(shown) + 1
        if used < height_left:
            parts.append(_line("", "", width))
            used += 1
    return parts, used


def _lines_per_table(wanted: Sequence[int], height_left: int) -> list[int]:
    """Lines for each table with its title: a minimum in order, then the rest in equal parts."""
    lines_per_table, left = [0] * len(wanted), height_left
    for number, rows in enumerate(wanted):
        minimum = min(rows, 2) + 1
        if rows and minimum <= left:
            lines_per_table[number] = minimum
            left -= minimum + 1  # and a blank line
    while left > 0 and (growable := [n for n, rows in enumerate(wanted) if 0 < lines_per_table[n] <= rows]):
        for number in growable[:left]:
            lines_per_table[number] += 1
            left -= 1
    return lines_per_table


def _visible_rows(rows: list[list[str]], limit: int, chosen: int | None) -> tuple[list[list[str]], int | None]:
    """The rows that fit, including the chosen one; the last row counts the hidden ones."""
    if len(rows) <= limit:
        return rows, chosen
    visible = max(limit - 1, 1)
    start = 0 if chosen is None else max(min(chosen - visible + 1, len(rows) - visible), 0)
    more = [f"… {len(rows) - visible} more", *[""] * (len(rows[0]) - 1)]
    shown = [*rows[start : start + visible], *([more] if limit > 1 else [])]
    return shown, None if chosen is None else chosen - start


def _header(sample: StoreSample | None, view: ViewState, width: int) -> RenderableType:
    if view.error is not None:
        since = "" if sample is None else f" (below: {sample.at:%H:%M:%S} UTC)"
        return _line(f"the store is unavailable{since}: {one_line(view.error)}", "bold white on red", width)
    if sample is None:
        return _line("headrace top: loading …", "bold", width)
    return _line(f"{_summary(sample)}  {sample.at:%H:%M:%S} UTC  {sample.store}", "bold", width)


def _summary(sample: StoreSample) -> str:
    pending, running = (sum(getattr(queue, state) for queue in sample.queues) for state in ("pending", "running"))
    rates_out = [queue.leaving for queue in sample.queues if queue.leaving is not None]
    rate = f", {_rate(sum(rates_out))}/s" if rates_out else ""
    workers = f"{len(sample.workers)} worker{'' if len(sample.workers) == 1 else 's'}"
    return f"{pending:,} pending, {running:,} running{rate}, {workers}"


def _footer(view: ViewState, width: int) -> RenderableType:
    message = view.question or view.message
    return _line(message or _KEYS.format(sort=view.sort), "bold yellow" if message else "reverse", width)


def _line(text: str, style: str, width: int) -> RenderableType:
    from rich.text import Text  # as above

    line = Text(text, style=style, no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


# -- rows


def _queue_row(queue: QueueSample) -> list[str]:
    numbers = (queue.retrying, queue.scheduled, queue.waiting, queue.failed)
    return [
        queue.queue,
        queue.state,
        f"{queue.pending:,}",
        f"{queue.running:,}",
        "-" if queue.oldest is None else span(queue.oldest),
        _rate(queue.arriving),
        _rate(queue.leaving),
        _empty_in(queue),
        *(f"{number:,}" for number in numbers),
    ]


def _empty_in(queue: QueueSample) -> str:
    if not queue.pending or queue.leaving is None:
        return "-"
    return "never" if queue.empty_in is None else span(queue.empty_in)


def _worker_row(worker: WorkerSample) -> list[str]:
    busy = min(worker.running / worker.concurrency, 1.0)
    return [
        worker.id,
        worker.state,
        f"{worker.running}/{worker.concurrency}",
        "█" * round(8 * busy) + "░" * (8 - round(8 * busy)),
        _rate(worker.rate),
        f"{worker.completed:,}",
        f"{worker.failed:,}",
        span(worker.up),
        _running(worker),
    ]


def _running(worker: WorkerSample) -> str:
    """The calls of a few jobs; of many, the tasks."""
    if len(worker.calls) <= _MAX_CALLS:
        return ", ".join(worker.calls) or "-"
    tasks = sorted({task: worker.jobs.count(task) for task in worker.jobs}.items())
    return ", ".join(task if number == 1 else f"{number} × {task}" for task, number in tasks)


def _failure_rows(sample: StoreSample) -> list[list[str]]:
    return [
        [ago(failure.at, sample.at), failure.task, failure.arguments, failure.queue, failure.error]
        for failure in sample.failures
    ]


def _rate(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}"


# -- one snapshot


def print_sample(sample: StoreSample, sort: str) -> None:
    """The complete sample as plain text."""
    say(f"{_summary(sample)}  {_stamp(sample.at)}  {sample.store}")
    for alert in sample.alerts:
        say(paint(f"{alert.severity}: {one_line(alert.summary)}", "red"))
    for columns, rows in (
        (_QUEUE_COLUMNS, [_queue_row(queue) for queue in sorted_queues(sample, ViewState(sort))]),
        (_WORKER_COLUMNS, [_worker_row(worker) for worker in sample.workers]),
        (_FAILURE_COLUMNS, _failure_rows(sample)),
    ):
        if rows:
            say()
            print_table(columns, rows)


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
