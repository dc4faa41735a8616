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
    """One curve of a chart. `look` is a class of the stylesheet: a state, or `accent`."""

    name: str
    points: Sequence[Point]
    look: str = "accent"


class Piece(NamedTuple):
    """A part of a bar: its size, its look and its tooltip."""

    amount: float
    look: str
    title: str = ""


def ceiling(values: Iterable[float | None]) -> float:
    """A round number at or above all values, for the top of an axis; 1 if all are zero."""
    most = max((value for value in values if value is not None), default=0.0)
    if most <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= most:
        power *= 10
    while power > most:
        power /= 10
    return next(round(tick * power, 10) for tick in _TICKS if tick * power >= most * 0.999999)


def sparkline(values: Sequence[float | None], title: str, look: str = "accent", height: float = 32.0) -> Markup:
    """A sparkline."""
    if not any(value is not None for value in values):
        return Markup('<span class="spark-none" title="{}">no data</span>').format(title)
    top = ceiling(values)
    body = _curve(list(values), top, height, look)
    return _svg(f"spark look-{look}", height, title, body)


def series(lines: Sequence[ChartLine], title: str, height: float = 160.0) -> Markup:
    """Lines over a common time with a grid. The page labels the axes; `ceiling` is the top label."""
    top = ceiling(point.value for line in lines for point in line.points)
    grid = Markup().join(
        Markup('<line class="grid-line" x1="0" x2="{w}" y1="{y}" y2="{y}"/>').format(
            w=_n(WIDTH), y=_n(height * part / 4)
        )
        for part in range(5)
    )
    curves = Markup().join(_curve([point.value for point in line.points], top, height, line.look) for line in lines)
    return _svg("series", height, title, grid + curves)


def bar(pieces: Sequence[Piece], title: str, height: float = 10.0) -> Markup:
    """A stacked bar. Non-zero parts stay visible."""
    whole = sum(piece.amount for piece in pieces)
    if whole <= 0:
        return _svg("bar", height, title, _rect(0, WIDTH, height, Piece(0, "none", title)))
    widths = _visible([piece.amount / whole * WIDTH for piece in pieces])
    drawn, x = [], 0.0
    for piece, width in zip(pieces, widths, strict=True):
        if width:
            drawn.append(_rect(x, width, height, piece))
        x += width
    return _svg("bar", height, title, Markup().join(drawn))


def states(count: Mapping[str, int], title: str, height: float = 10.0) -> Markup:
    """The number of jobs in each state as a stacked bar."""
    return bar([Piece(count[state], state, f"{state}: {count[state]:,}") for state in State], title, height)


def gauge(part: float, title: str, look: str = "accent", height: float = 6.0) -> Markup:
    """A gauge from 0 to 1."""
    full = min(max(part, 0.0), 1.0)
    return bar([Piece(full, look, title), Piece(1 - full, "none", title)], title, height)


def cells(full: int, all_of_them: int, title: str, height: float = 14.0) -> Markup:
    """Slots as cells, some taken; a gauge beyond fifty slots."""
    if not 0 < all_of_them <= 50:
        return gauge(full / all_of_them if all_of_them else 0.0, title, "running", height)
    each = WIDTH / all_of_them
    drawn = (
        Markup('<rect class="look-{look}" x="{x}" y="0" width="{w}" height="{h}" rx="2"/>').format(
            look="running" if place < full else "none", x=_n(place * each), w=_n(each * 0.92), h=_n(height)
        )
        for place in range(all_of_them)
    )
    return _svg("cells", height, title, Markup().join(drawn))


def _visible(widths: Sequence[float], least: float = 3.0) -> list[float]:
    """Widths with the same sum, and a visible minimum for non-zero parts."""
    grown = [max(width, least) if width > 0 else 0.0 for width in widths]
    excess, room = sum(grown) - sum(widths), sum(width - least for width in grown if width > least)
    if excess <= 0 or room <= 0:
        return list(widths)
    return [width - excess * (width - least) / room if width > least else width for width in grown]


def _curve(values: Sequence[float | None], top: float, height: float, look: str) -> Markup:
    """The line and the area below it, split at gaps."""
    step = WIDTH / max(len(values) - 1, 1)
    drawn = Markup()
    for run in _runs(values):
        places = [(place * step, height - (height - 2) * min(value / top, 1.0) - 1) for place, value in run]
        if len(places) == 1:  # a lone point would be invisible
            places.append((min(places[0][0] + step / 2, WIDTH), places[0][1]))
        path = "L".join(f"{_n(x)} {_n(y)}" for x, y in places)
        area = f"M{_n(places[0][0])} {_n(height)}L{path}L{_n(places[-1][0])} {_n(height)}Z"
        drawn += Markup('<path class="area look-{0}" d="{1}"/><path class="line look-{0}" d="M{2}"/>').format(
            look, area, path
        )
    return drawn


def _runs(values: Sequence[float | None]) -> Iterable[list[tuple[int, float]]]:
    run: list[tuple[int, float]] = []
    for place, value in enumerate(values):
        if value is not None:
            run.append((place, value))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _rect(x: float, width: float, height: float, piece: Piece) -> Markup:
    title = Markup("<title>{}</title>").format(piece.title) if piece.title else Markup()
    return Markup('<rect class="look-{look}" x="{x}" y="0" width="{w}" height="{h}">{title}</rect>').format(
        look=piece.look, x=_n(x), w=_n(width), h=_n(height), title=title
    )


def _svg(look: str, height: float, title: str, body: Markup) -> Markup:
    return Markup(
        '<svg class="chart {look}" viewBox="0 0 {w} {h}" height="{h}" preserveAspectRatio="none" role="img" '
        'aria-label="{title}">{body}</svg>'
    ).format(look=look, w=_n(WIDTH), h=_n(height), title=escape(title), body=body)


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")
