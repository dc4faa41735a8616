"""Takes the measures in rounds and reduces what they read.

Rounds are interleaved: a machine's slow minute then falls on all measures alike, and the median passes over it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from bench.measure import Figure, Goal, Ground, Measure, Ratio, Readings


class Row(Struct, frozen=True):
    """One line of the report: a figure or a ratio over all rounds."""

    measure: str
    title: str
    unit: str
    median: float
    values: list[float]
    goal: Goal | None

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "met" if self.goal.is_met_by(self.median) else "MISSED"


class Failure(Struct, frozen=True):
    """A measure that could not be taken, and why."""

    measure: str
    error: str


def take_rounds(
    measures: Sequence[Measure], ground: Ground, rounds: int, tell: Callable[[str], None]
) -> tuple[list[Row], list[Failure]]:
    """Every measure once in each round. One that fails is given up; the others go on."""
    taken: dict[str, list[Readings]] = {measure.name: [] for measure in measures}
    failures: dict[str, Failure] = {}
    for number in range(1, rounds + 1):
        for measure in measures:
            if measure.name not in failures:
                began = time.monotonic()
                try:
                    taken[measure.name].append(measure.take(ground))
                except Exception as error:  # told at the end; the other measures are still worth taking
                    failures[measure.name] = Failure(measure.name, f"{type(error).__name__}: {error}")
                tell(f"round {number} of {rounds}: {measure.name} took {time.monotonic() - began:.0f} s")
    return [row for measure in measures for row in _rows(measure, taken[measure.name])], list(failures.values())


def _rows(measure: Measure, readings: list[Readings]) -> Iterable[Row]:
    if not readings:
        return
    for figure in measure.figures:
        yield _row(measure, figure, figure.unit, [reading[figure.key] for reading in readings])
    for ratio in measure.ratios:
        yield _row(measure, ratio, "×", [reading[ratio.over] / reading[ratio.under] for reading in readings])


def _row(measure: Measure, line: Figure | Ratio, unit: str, values: list[float]) -> Row:
    return Row(measure.name, line.title, unit, statistics.median(values), values, line.goal)


def tell_on_stderr(text: str) -> None:
    """Progress for whoever waits; the report itself goes to standard output."""
    print(text, file=sys.stderr, flush=True)
