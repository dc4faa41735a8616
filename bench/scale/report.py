"""The report: pictures, tables, and a sentence for each bend, all made of readings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench.places import ENGINES, Engine
from bench.scale.axes import AXES, Axis, load_of
from bench.scale.bend import BENDS_BELOW, HALVES_BELOW, Bend, bend_of, bend_of_times
from bench.scale.drawing import Curve, Panel, picture
from bench.scale.log_scale import short
from bench.scale.rates import DISTURBANCES, SIZES, TIMES, TITLES
from bench.scale.readings import Reading, Readings, curve
from bench.scale.reasons import reason

_DISTURBED = 30.0  # percent of the processors
_NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "Redis"}


def write(readings: Readings, folder: Path, cores: int, pictures: Path | None = None) -> Path:
    """The pictures, and the text, which is in the folder; where the text is."""
    pictures = pictures or folder
    pictures.mkdir(parents=True, exist_ok=True)
    found, facts = readings.all(), readings.facts()
    axes = [axis for axis in AXES if any(reading.axis == axis.name for reading in found)]
    for axis in axes:
        title = f"headrace: rates by {axis.title}"
        (pictures / f"scale-{axis.name}.svg").write_text(picture(title, panels(found, axis)))
    text = folder / "scale.md"
    where = Path(os.path.relpath(pictures, folder)).as_posix()
    text.write_text("\n".join(_lines(found, facts, axes, cores, where)) + "\n")
    return text


def panels(found: Sequence[Reading], axis: Axis) -> list[Panel]:
    """One for each rate that was read on this axis."""
    return [
        Panel(title, axis.unit, tuple(_curve(found, axis, engine, rate) for engine in _read(found, axis, rate)))
        for rate, title in TITLES.items()
        if rate not in DISTURBANCES and _read(found, axis, rate)
    ]


def _read(found: Sequence[Reading], axis: Axis, rate: str) -> list[Engine]:
    return [engine for engine in ENGINES if curve(found, axis.name, engine, rate)]


def _curve(found: Sequence[Reading], axis: Axis, engine: Engine, rate: str) -> Curve:
    points, bend = curve(found, axis.name, engine, rate), find_bend(found, axis, engine, rate)
    # Nothing at all has no place on a logarithmic scale.
    return Curve(_NAMES[engine], tuple(p for p in points if p[1] > 0), (bend.step, bend.value) if bend else None)


def find_bend(found: Sequence[Reading], axis: Axis, engine: Engine, rate: str) -> Bend | None:
    """Where the rate bends; a size does not. Beside the work of others, only what halves is more than chance."""
    if rate in SIZES | DISTURBANCES:
        return None
    disturbed = any(others > _DISTURBED for _, others in curve(found, axis.name, engine, "others"))
    below, points = HALVES_BELOW if disturbed else BENDS_BELOW, curve(found, axis.name, engine, rate)
    return bend_of_times(points, below) if rate in TIMES else bend_of(points, below)


def _lines(
    found: Sequence[Reading], facts: dict[str, str], axes: Sequence[Axis], cores: int, where: str
) -> Iterable[str]:
    yield "# How far it scales\n"
    yield from (f"- {name}: {value}" for name, value in facts.items())
    for axis in axes:
        yield f"\n## {axis.title}\n\n![Rates by {axis.title}]({where}/scale-{axis.name}.svg)\n"
        yield from _table(found, axis)
        yield ""
        yield from _bends(found, axis, cores)
        yield from _failures(found, axis)


def _table(found: Sequence[Reading], axis: Axis) -> Iterable[str]:
    mine = [reading for reading in found if reading.axis == axis.name and not reading.error]
    rates = [rate for rate in TITLES if any(rate in reading.rates for reading in mine)]
    yield f"| | {axis.unit} | {' | '.join(TITLES[rate] for rate in rates)} | load |"
    yield "|---|" + "---:|" * (len(rates) + 2)
    for engine in ENGINES:
        for reading in mine:
            if reading.engine == engine:
                cells = " | ".join(_cell(reading.rates.get(rate)) for rate in rates)
                yield f"| {_NAMES[engine]} | {reading.step:,} | {cells} | {reading.load} |"


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _bends(found: Sequence[Reading], axis: Axis, cores: int) -> Iterable[str]:
    for rate, title in TITLES.items():
        if rate not in SIZES | DISTURBANCES:
            for engine in _read(found, axis, rate):
                yield f"- {_NAMES[engine]}, {title}: {_sentence(found, axis, engine, rate, cores)}"


def _sentence(found: Sequence[Reading], axis: Axis, engine: Engine, rate: str, cores: int) -> str:
    bend = find_bend(found, axis, engine, rate)
    if bend is None:
        return f"no bend up to {short(curve(found, axis.name, engine, rate)[-1][0])}."
    used = next((point[1] for point in curve(found, axis.name, engine, "cores") if point[0] == bend.step), None)
    processes = load_of(axis.name, int(bend.step), 1).processes
    told = (
        f"bends at {bend.step:,.0f} {axis.unit}, with {_cell(bend.value)} after {_cell(bend.best)} at "
        f"{bend.best_step:,.0f} ({bend.share:.0%})."
    )
    return f"{told} {reason(axis.name, rate, engine, min(cores, processes), used)}".rstrip()


def _failures(found: Sequence[Reading], axis: Axis) -> Iterable[str]:
    for reading in found:
        if reading.axis == axis.name and reading.error:
            yield f"- {_NAMES[reading.engine]} was not measured at {reading.step:,}: {reading.error}"
