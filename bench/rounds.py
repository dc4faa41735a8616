"""Takes the measures in rounds and reduces what they read.

Rounds are interleaved: a machine's slow minute then falls on all measures alike, and the median passes over it.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from bench.ground import Ground
from bench.measure import Figure, Goal, Measure, Ratio, Readings


class Row(Struct, frozen=True):
    """One line of the report: a figure or a ratio over all rounds."""

    engine: str
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

    engine: str
    measure: str
    error: str


class Lap(Struct):
    """One measure on the ground of one engine, with what it has read so far."""

    ground: Ground
    measure: Measure
    readings: list[Readings] = []
    failure: Failure | None = None

    def run(self) -> None:
        try:
            self.readings.append(self.measure.take(self.ground))
        except Exception as error:  # told at the end; the other measures are still worth taking
            self.failure = Failure(self.ground.engine, self.measure.name, f"{type(error).__name__}: {error}")

    def rows(self) -> Iterable[Row]:
        """A row for each figure and ratio that was read at least once: a peer may be missing."""
        for figure in self.measure.figures:
            yield from self._row(
                figure, figure.unit, [read[figure.key] for read in self.readings if figure.key in read]
            )
        for ratio in self.measure.ratios:
            both = [read for read in self.readings if ratio.over in read and ratio.under in read]
            yield from self._row(ratio, "×", [read[ratio.over] / read[ratio.under] for read in both])

    def _row(self, line: Figure | Ratio, unit: str, values: list[float]) -> Iterable[Row]:
        if values:
            median = statistics.median(values)
            yield Row(self.ground.engine, self.measure.name, line.title, unit, median, values, line.goal)


def take_rounds(laps: Sequence[Lap], rounds: int, tell: Callable[[str], None]) -> None:
    """Every measure once in each round. One that fails is given up; the others go on."""
    for number in range(1, rounds + 1):
        for lap in laps:
            if lap.failure is None:
                began = time.monotonic()
                lap.run()
                what = f"{lap.ground.engine}, {lap.measure.name}"
                tell(f"round {number} of {rounds}: {what} took {time.monotonic() - began:.0f} s")


def tell_on_stderr(text: str) -> None:
    """Progress for whoever waits; the report itself goes to standard output."""
    print(text, file=sys.stderr, flush=True)
