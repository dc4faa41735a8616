"""Output: JSON for programs, aligned text in a pipe, colors and fitted tables on a terminal.

Independent of jobs. rich is imported only to draw on a terminal: a worker never loads it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click
import msgspec

if TYPE_CHECKING:
    from rich.table import Table

_STATE_COLORS = {
    "scheduled": "blue",
    "waiting": "blue",
    "running": "cyan",
    "retrying": "yellow",
    "completed": "green",
    "failed": "red",
    "cancelled": "bright_black",
    "paused": "yellow",
    "stopping": "yellow",
    "silent": "red",
    "unserved": "red",
}
_GAP = 2


class Column(NamedTuple):
    """A column of a table. On a narrow terminal it may shrink to `min_width`, if that is given."""

    title: str
    right: bool = False
    min_width: int | None = None


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def colorful() -> bool:
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, color: str | None = None, bold: bool = False) -> str:
    """The text in a color, if stdout shows colors."""
    return click.style(text, fg=color, bold=bold or None) if colorful() else text


def say(text: str = "") -> None:
    """Print a line to stdout."""
    click.echo(text, color=colorful())


def remark(text: str) -> None:
    """Print a line to stderr, apart from the output that programs read."""
    click.echo(text, err=True)


def confirm(action: str) -> None:
    """Ask for confirmation on a terminal; refuse elsewhere."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"this would {action}; add --yes, because there is no terminal to confirm on")
    click.confirm(f"{action[:1].upper()}{action[1:]}?", abort=True, err=True)


def print_json(value: Any) -> None:
    """Print one JSON document. Times are ISO 8601 in UTC."""
    click.echo(msgspec.json.format(msgspec.json.encode(value, enc_hook=repr), indent=2))


def clean(text: str) -> str:
    """Escape control characters: a stored text must not control the terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in "\n\t" else repr(char)[1:-1] for char in text)


def one_line(text: str) -> str:
    return " ".join(clean(text).split())


# -- times


def stamp(moment: datetime | None) -> str:
    """2026-03-01 12:30:05.123 UTC, or a dash."""
    if moment is None:
        return "-"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} UTC"


def ago(moment: datetime | None, now: datetime) -> str:
    """Time since a moment: 12s, 5m, 3h, 2d; a future time gets the prefix `in`."""
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    return span(seconds) if seconds >= 0 else f"in {span(-seconds)}"


def span(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


# -- sizes


def size(count: float) -> str:
    """Bytes: 512 B, 20 KB, 1.5 GB."""
    for unit in ("B", "KB", "MB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GB"


# -- blocks


def print_facts(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values, one pair per line; the lines of a value are indented."""
    listed = list(pairs)
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        lines = clean(value).splitlines() or [""]
        say(f"{paint(name.ljust(width), bold=True)}  {_colored(lines[0])}")
        for line in lines[1:]:
            say(f"{' ' * width}  {line}")


def print_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table. A terminal cuts cells that do not fit; a pipe gets everything."""
    cleaned = [[one_line(cell) for cell in row] for row in rows]
    if on_terminal():
        _draw(columns, cleaned)
    else:
        _align(columns, cleaned)


def _align(columns: Sequence[Column], rows: list[list[str]]) -> None:
    lines = [[column.title for column in columns], *rows]
    widths = [max(len(row[n]) for row in lines) for n in range(len(columns))]
    for row in lines:
        cells = (
            cell.rjust(width) if column.right else cell.ljust(width)
            for column, cell, width in zip(columns, row, widths, strict=True)
        )
        say("  ".join(cells).rstrip())


def _draw(columns: Sequence[Column], rows: list[list[str]]) -> None:
    from rich.console import Console  # see the module's docstring

    console = Console(highlight=False, markup=False)
    console.print(table_of(columns, rows, console.width))


def table_of(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], available: int, selected: int | None = None
) -> Table:
    """A rich table that fits the width, with the chosen row marked."""
    from rich.cells import cell_len  # as above
    from rich.table import Table
    from rich.text import Text

    natural_widths = [max(map(cell_len, (column.title, *(row[n] for row in rows)))) for n, column in enumerate(columns)]
    widths = fit(columns, natural_widths, available)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column, width in zip(columns, widths, strict=False):
        side: Literal["left", "right"] = "right" if column.right else "left"
        table.add_column(column.title, justify=side, no_wrap=True, overflow="ellipsis", width=width)
    for number, row in enumerate(rows):
        cells = (Text(cell, style=_STATE_COLORS.get(cell, "")) for cell in row[: len(widths)])
        table.add_row(*cells, style="reverse" if number == selected else None)
    return table


def fit(columns: Sequence[Column], natural_widths: Sequence[int], available: int) -> list[int]:
    """Column widths that fit: the last columns shrink first, then drop out."""
    for count in range(len(columns), 1, -1):
        widths = list(natural_widths[:count])
        for n in reversed(range(count)):
            excess = sum(widths) + _GAP * (count - 1) - available
            min_width = columns[n].min_width
            if excess > 0 and min_width is not None:
                widths[n] = max(widths[n] - excess, min(min_width, widths[n]))
        if sum(widths) + _GAP * (count - 1) <= available:
            return widths
    return [natural_widths[0]]


def _colored(line: str) -> str:
    color = _STATE_COLORS.get(line.partition(" ")[0])
    return paint(line, color) if color else line
