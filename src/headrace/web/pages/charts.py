"""Charts as SVG. Pure functions: numbers in, markup out; text is escaped here.

A drawing stretches to the width of its container, so it contains no text; strokes keep their width. Colors are classes
of the stylesheet and lengths are attributes, because the pages allow no inline style.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from markupsafe import Markup, escape

from headrace.core.jobs.states import State

WIDTH = 600.0
_TICKS = (1.0, 2.0, 2.5, 5.0, 10.0)


class Point(NamedTuple):
    """A value at a time; None where nothing was measured."""

    at: datetime
    value: float | None


class ChartLine(NamedTuple):
    """One curve of a chart. `color` is a class of the stylesheet: a state, or `accent`."""

    name: str
    points: Sequence[Point]
    color: str = "accent"


class Piece(NamedTuple):
    """A part of a bar: its size, its color and its tooltip."""

    amount: float
    color: str
    title: str = ""


def ceiling(values: Iterable[float | None]) -> float:
    """A round number at or above all values, for the top of an axis; 1 if all are zero."""
    maximum = max((value for value in values if value is not None), default=0.0)
    if maximum <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= maximum:
        power *= 10
    while power > maximum:
        power /= 10
    return next(round(tick * power, 10) for tick in _TICKS if tick * power >= maximum * 0.999999)


def sparkline(values: Sequence[float | None], title: str, color: str = "accent", height: float = 32.0) -> Markup:
    """A sparkline."""
    if not any(value is not None for value in values):
        return Markup('<span class="spark-none" title="{}">no data</span>').format(title)
    top = ceiling(values)
    body = _curve(list(values), top, height, color)
    return _svg(f"spark color-{color}", height, title, body)


def series(lines: Sequence[ChartLine], title: str, height: float = 160.0) -> Markup:
    """Lines over a common time with a grid. The page labels the axes; `ceiling` is the top label."""
    top = ceiling(point.value for line in lines for point in line.points)
    grid = Markup().join(
        Markup('<line class="grid-line" x1="0" x2="{w}" y1="{y}" y2="{y}"/>').format(
            w=_n(WIDTH), y=_n(height * part / 4)
        )
        for part in range(5)
    )
    curves = Markup().join(_curve([point.value for point in line.points], top, height, line.color) for line in lines)
    return _svg("series", height, title, grid + curves)


def bar(pieces: Sequence[Piece], title: str, height: float = 10.0) -> Markup:
    """A stacked bar. Non-zero parts stay visible."""
    total = sum(piece.amount for piece in pieces)
    if total <= 0:
        return _svg("bar", height, title, _rect(0, WIDTH, height, Piece(0, "none", title)))
    widths = _visible([piece.amount / total * WIDTH for piece in pieces])
    parts, x = [], 0.0
    for piece, width in zip(pieces, widths, strict=True):
        if width:
            parts.append(_rect(x, width, height, piece))
        x += width
    return _svg("bar", height, title, Markup().join(parts))


def states(count: Mapping[str, int], title: str, height: float = 10.0) -> Markup:
    """The number of jobs in each state as a stacked bar."""
    return bar([Piece(count[state], state, f"{state}: {count[state]:,}") for state in State], title, height)


def gauge(part: float, title: str, color: str = "accent", height: float = 6.0) -> Markup:
    """A gauge from 0 to 1."""
    filled = min(max(part, 0.0), 1.0)
    return bar([Piece(filled, color, title), Piece(1 - filled, "none", title)], title, height)


def cells(busy: int, total: int, title: str, height: float = 14.0) -> Markup:
    """Slots as cells, some taken; a gauge beyond fifty slots."""
    if not 0 < total <= 50:
        return gauge(busy / total if total else 0.0, title, "running", height)
    cell_width = WIDTH / total
    parts = (
        Markup('<rect class="color-{color}" x="{x}" y="0" width="{w}" height="{h}" rx="2"/>').format(
            color="running" if index < busy else "none", x=_n(index * cell_width), w=_n(cell_width * 0.92), h=_n(height)
        )
        for index in range(total)
    )
    return _svg("cells", height, title, Markup().join(parts))


def _visible(widths: Sequence[float], minimum: float = 3.0) -> list[float]:
    """Widths with the same sum, and a visible minimum for non-zero parts."""
    widened = [max(width, minimum) if width > 0 else 0.0 for width in widths]
    excess, shrinkable = sum(widened) - sum(widths), sum(width - minimum for width in widened if width > minimum)
    if excess <= 0 or shrinkable <= 0:
        return list(widths)
    return [width - excess * (width - minimum) / shrinkable if width > minimum else width for width in widened]


def _curve(values: Sequence[float | None], top: float, height: float, color: str) -> Markup:
    """The line and the area below it, split at gaps."""
    step = WIDTH / max(len(values) - 1, 1)
    svg = Markup()
    for run in _runs(values):
        points = [(index * step, height - (height - 2) * min(value / top, 1.0) - 1) for index, value in run]
        if len(points) == 1:  # a lone point would be invisible
            points.append((min(points[0][0] + step / 2, WIDTH), points[0][1]))
        path = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
        area = f"M{_n(points[0][0])} {_n(height)}L{path}L{_n(points[-1][0])} {_n(height)}Z"
        svg += Markup('<path class="area color-{0}" d="{1}"/><path class="line color-{0}" d="M{2}"/>').format(
            color, area, path
        )
    return svg


def _runs(values: Sequence[float | None]) -> Iterable[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for index, value in enumerate(values):
        if value is not None:
            run.append((index, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _rect(x: float, width: float, height: float, piece: Piece) -> Markup:
    title = Markup("<title>{}</title>").format(piece.title) if piece.title else Markup()
    return Markup('<rect class="color-{color}" x="{x}" y="0" width="{w}" height="{h}">{title}</rect>').format(
        color=piece.color, x=_n(x), w=_n(width), h=_n(height), title=title
    )


def _svg(classes: str, height: float, title: str, body: Markup) -> Markup:
    return Markup(
        '<svg class="chart {classes}" viewBox="0 0 {w} {h}" height="{h}" preserveAspectRatio="none" role="img" '
        'aria-label="{title}">{body}</svg>'
    ).format(classes=classes, w=_n(WIDTH), h=_n(height), title=escape(title), body=body)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
