"""Curves as a picture: panels side by side, both scales logarithmic, a ring where a curve bends. Pure.

It has paper of its own, light or dark as the reader's system is, so that it is legible on any page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from msgspec import Struct

from bench.scale.bend import Point
from bench.scale.log_scale import LogScale, scale_of, short

_COLUMNS = 2
_WIDTH, _HEIGHT = 360, 220  # of a panel, its margins included
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 30, 36
_HEAD = 34  # the key of the curves
_LIGHT = ("#fff", "#333", "#ddd", "#2563a8", "#1d7a4f", "#b3402a", "#6b4fa0")
_DARK = ("#1c2128", "#d5dae0", "#3a424c", "#6cb0f5", "#5cc995", "#f0907c", "#b9a2ee")
_DASHES = ("none", "7 3", "2 3", "9 3 2 3")  # curves differ without colors, too


def _colors(paper: str, text: str, grid: str, *curves: str) -> str:
    lines = "".join(f".k{n}{{stroke:{color}}}.d{n}{{fill:{color}}}" for n, color in enumerate(curves))
    return f".paper{{fill:{paper}}}text{{fill:{text}}}.grid{{stroke:{grid}}}{lines}"


_STYLE = (
    "text{font:11px system-ui,sans-serif}.title{font-weight:600;font-size:12px}.curve,.bend{fill:none;stroke-width:2}"
    + "".join(f".curve.k{n}{{stroke-dasharray:{dash}}}" for n, dash in enumerate(_DASHES))
    + _colors(*_LIGHT)
    + f"@media (prefers-color-scheme:dark){{{_colors(*_DARK)}}}"
)


class Curve(Struct, frozen=True):
    """One line of a panel, and where it bends."""

    name: str
    points: tuple[Point, ...]
    bend: Point | None = None


class Panel(Struct, frozen=True):
    """One rate over one axis."""

    title: str
    unit: str  # of the axis below
    curves: tuple[Curve, ...]


def picture(title: str, panels: Sequence[Panel]) -> str:
    """An SVG document of these panels."""
    names = list(dict.fromkeys(curve.name for panel in panels for curve in panel.curves))
    rows = -(-len(panels) // _COLUMNS)
    width, height = _WIDTH * min(_COLUMNS, max(len(panels), 1)), _HEAD + _HEIGHT * rows
    body = [_key(names), *(_placed(panel, number, names) for number, panel in enumerate(panels))]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style>",
            f'<rect width="{width}" height="{height}" rx="6" class="paper"/>',
            *body,
            "</svg>\n",
        ]
    )


def _key(names: Sequence[str]) -> str:
    entries = []
    for number, name in enumerate(names):
        x = _LEFT + 110 * number
        entries.append(
            f'<line x1="{x}" y1="16" x2="{x + 18}" y2="16" class="curve k{number % len(_DASHES)}"/>'
            f'<text x="{x + 24}" y="20">{escape(name)}</text>'
        )
    return "".join(entries)


def _placed(panel: Panel, number: int, names: Sequence[str]) -> str:
    x, y = _WIDTH * (number % _COLUMNS), _HEAD + _HEIGHT * (number // _COLUMNS)
    return f'<g transform="translate({x} {y})">\n' + "\n".join(_panel(panel, names)) + "\n</g>"


def _panel(panel: Panel, names: Sequence[str]) -> Iterable[str]:
    yield f'<text x="{_LEFT}" y="18" class="title">{escape(panel.title)}</text>'
    points = [point for curve in panel.curves for point in curve.points]
    if not points:
        return
    across, up = scale_of([step for step, _ in points]), scale_of([value for _, value in points])
    yield from _grid(across, up)
    yield f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 4}" text-anchor="end">{escape(panel.unit)}</text>'
    for curve in panel.curves:
        yield from _drawn(curve, names.index(curve.name), across, up)


def _grid(across: LogScale, up: LogScale) -> Iterable[str]:
    for step in across.ticks():
        x = _x(step, across)
        yield f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{_HEIGHT - _BOTTOM}" class="grid"/>'
        yield f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 14}" text-anchor="middle">{short(step)}</text>'
    for value in up.ticks():
        y = _y(value, up)
        yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" class="grid"/>'
        yield f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{short(value)}</text>'


def _drawn(curve: Curve, number: int, across: LogScale, up: LogScale) -> Iterable[str]:
    places = [(_x(step, across), _y(value, up)) for step, value in curve.points]
    look = number % len(_DASHES)
    yield f'<polyline points="{" ".join(f"{x},{y}" for x, y in places)}" class="curve k{look}"/>'
    for (x, y), (step, value) in zip(places, curve.points, strict=True):
        told = escape(f"{curve.name}: {short(value)} at {short(step)}")
        yield f'<circle cx="{x}" cy="{y}" r="3" class="d{look}"><title>{told}</title></circle>'
    if curve.bend is not None:
        x, y = _x(curve.bend[0], across), _y(curve.bend[1], up)
        yield f'<circle cx="{x}" cy="{y}" r="8" class="bend k{look}"/>'


def _x(step: float, across: LogScale) -> float:
    return round(_LEFT + across.share(step) * (_WIDTH - _LEFT - _RIGHT), 1)


def _y(value: float, up: LogScale) -> float:
    return round(_HEIGHT - _BOTTOM - up.share(value) * (_HEIGHT - _TOP - _BOTTOM), 1)
