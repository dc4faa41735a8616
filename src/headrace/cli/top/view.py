"""Drawing of `headrace top`: a full screen or plain tables. It neither queries nor changes the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct

from headrace.cli.output import Column, ago, drawn, one_line, paint, print_table, say, span
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
    Column("QUEUE", least=8),
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
    Column("WORKER", least=12),
    Column("STATE"),
    Column("BUSY", right=True),
    Column("LOAD"),
    Column("JOBS/s", right=True),
    Column("DONE", right=True),
    Column("FAILED", right=True),
    Column("UP", right=True),
    Column("ON", least=8),
)
_FAILURE_COLUMNS = (
    Column("AGO", right=True),
    Column("TASK", least=8),
    Column("QUEUE", least=8),
    Column("ERROR", least=16),
)
_KEYS = "q quit  ↑↓ choose  p pause/resume  s sort: {sort}"


class ViewState(Struct, frozen=True):
    """The user's choices, and the messages shown."""

    sort: str = "name"
    chosen: str | None = None
    question: str | None = None
    message: str | None = None
    trouble: str | None = None


def in_order(sight: StoreSample, look: ViewState) -> list[QueueSample]:
    return sorted(sight.queues, key=SORTS[look.sort])  # type: ignore[arg-type]  # the keys of one sort are comparable


def screen(sight: StoreSample | None, look: ViewState, width: int, height: int) -> Group:
    """The whole screen, exactly `height` lines high."""
    from rich.console import Group  # only loaded to draw

    head: list[RenderableType] = [_header(sight, look, width)]
    room = height - 2
    if sight is not None:
        for alert in sight.alerts[: max(room // 6, 1)]:
            head.append(_line(f"{alert.severity}: {one_line(alert.summary)}", "bold red", width))
            room -= 1
    body, used = ([], 0) if sight is None else _body(sight, look, width, room)
    blank = [_line("", "", width)] * max(room - used, 0)
    return Group(*head, *body, *blank, _footer(look, width))


def _body(sight: StoreSample, look: ViewState, width: int, room: int) -> tuple[list[RenderableType], int]:
    queues = in_order(sight, look)
    chosen = next((n for n, seen in enumerate(queues) if seen.queue == look.chosen), None)
    shares = _shares([len(queues), len(sight.workers), len(sight.failures)], room)
    parts: list[RenderableType] = []
    used = 0
    tables = (
        (_QUEUE_COLUMNS, [_queue_row(seen) for seen in queues], chosen),
        (_WORKER_COLUMNS, [_worker_row(seen) for seen in sight.workers], None),
        (_FAILURE_COLUMNS, _failure_rows(sight), None),
    )
    for share, (columns, rows, marked) in zip(shares, tables, strict=True):
        if share < 2:
            continue
        shown, marked = _window(rows, share - 1, marked)
        parts.append(drawn(columns, [[one_line(cell) for cell in row] for row in shown], width, marked))
        used += len(shown) + 1
        if used < room:
            parts.append(_line("", "", width))
            used += 1
    return parts, used


def _shares(wanted: Sequence[int], room: int) -> list[int]:
    """Lines for each table with its title: a minimum in order, then the rest in equal parts."""
    shares, left = [0] * len(wanted), room
    for number, rows in enumerate(wanted):
        least = min(rows, 2) + 1
        if rows and least <= left:
            shares[number] = least
            left -= least + 1  # and a blank line
    while left > 0 and (hungry := [n for n, rows in enumerate(wanted) if 0 < shares[n] <= rows]):
        for number in hungry[:left]:
            shares[number] += 1
            left -= 1
    return shares


def _window(rows: list[list[str]], most: int, chosen: int | None) -> tuple[list[list[str]], int | None]:
    """The rows that fit, including the chosen one; the last row counts the hidden ones."""
    if len(rows) <= most:
        return rows, chosen
    kept = max(most - 1, 1)
    start = 0 if chosen is None else max(min(chosen - kept + 1, len(rows) - kept), 0)
    more = [f"… {len(rows) - kept} more", *[""] * (len(rows[0]) - 1)]
    shown = [*rows[start : start + kept], *([more] if most > 1 else [])]
    return shown, None if chosen is None else chosen - start


def _header(sight: StoreSample | None, look: ViewState, width: int) -> RenderableType:
    if look.trouble is not None:
        since = "" if sight is None else f" (below: {sight.at:%H:%M:%S} UTC)"
        return _line(f"the store is unavailable{since}: {one_line(look.trouble)}", "bold white on red", width)
    if sight is None:
        return _line("headrace top: loading …", "bold", width)
    return _line(f"{_summary(sight)}  {sight.at:%H:%M:%S} UTC  {sight.store}", "bold", width)


def _summary(sight: StoreSample) -> str:
    pending, running = (sum(getattr(seen, what) for seen in sight.queues) for what in ("pending", "running"))
    out = [seen.leaving for seen in sight.queues if seen.leaving is not None]
    rate = f", {_rate(sum(out))}/s" if out else ""
    workers = f"{len(sight.workers)} worker{'' if len(sight.workers) == 1 else 's'}"
    return f"{pending:,} pending, {running:,} running{rate}, {workers}"


def _footer(look: ViewState, width: int) -> RenderableType:
    message = look.question or look.message
    return _line(message or _KEYS.format(sort=look.sort), "bold yellow" if message else "reverse", width)


def _line(text: str, style: str, width: int) -> RenderableType:
    from rich.text import Text  # as above

    line = Text(text, style=style, no_wrap=True, overflow="ellipsis")
    line.truncate(width, overflow="ellipsis", pad=True)
    return line


# -- rows


def _queue_row(seen: QueueSample) -> list[str]:
    numbers = (seen.retrying, seen.scheduled, seen.waiting, seen.failed)
    return [
        seen.queue,
        seen.state,
        f"{seen.pending:,}",
        f"{seen.running:,}",
        "-" if seen.oldest is None else span(seen.oldest),
        _rate(seen.arriving),
        _rate(seen.leaving),
        _empty_in(seen),
        *(f"{number:,}" for number in numbers),
    ]


def _empty_in(seen: QueueSample) -> str:
    if not seen.pending or seen.leaving is None:
        return "-"
    return "never" if seen.empty_in is None else span(seen.empty_in)


def _worker_row(seen: WorkerSample) -> list[str]:
    share = min(seen.running / seen.concurrency, 1.0)
    jobs = sorted({task: seen.jobs.count(task) for task in seen.jobs}.items())
    return [
        seen.id,
        seen.state,
        f"{seen.running}/{seen.concurrency}",
        "█" * round(8 * share) + "░" * (8 - round(8 * share)),
        _rate(seen.rate),
        f"{seen.completed:,}",
        f"{seen.failed:,}",
        span(seen.up),
        ", ".join(task if number == 1 else f"{number} × {task}" for task, number in jobs) or "-",
    ]


def _failure_rows(sight: StoreSample) -> list[list[str]]:
    return [[ago(seen.at, sight.at), seen.task, seen.queue, seen.error] for seen in sight.failures]


def _rate(number: float | None) -> str:
    return "-" if number is None else f"{number:,.0f}" if number >= 10 or number == 0 else f"{number:.1f}"


# -- one snapshot


def print_sight(sight: StoreSample, sort: str) -> None:
    """The complete sample as plain text."""
    say(f"{_summary(sight)}  {_stamp(sight.at)}  {sight.store}")
    for alert in sight.alerts:
        say(paint(f"{alert.severity}: {one_line(alert.summary)}", "red"))
    for columns, rows in (
        (_QUEUE_COLUMNS, [_queue_row(seen) for seen in in_order(sight, ViewState(sort))]),
        (_WORKER_COLUMNS, [_worker_row(seen) for seen in sight.workers]),
        (_FAILURE_COLUMNS, _failure_rows(sight)),
    ):
        if rows:
            say()
            print_table(columns, rows)


def _stamp(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
