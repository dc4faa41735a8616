"""What a measure is: a function that answers one question once, and the figures it answers with.

Knows nothing of how often it is run or how the answers are printed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from bench.ground import Ground

Readings = dict[str, float]


class Goal(Struct, frozen=True):
    """A limit a figure should keep. Missing it is worth a look, not an error: machines are noisy."""

    kind: Literal["at least", "at most"]
    value: float

    def is_met_by(self, figure: float) -> bool:
        return figure >= self.value if self.kind == "at least" else figure <= self.value


class Figure(Struct, frozen=True):
    """A number a measure reads, under the key of its readings. It has no row if there is no reading of it."""

    key: str
    title: str
    unit: str = "jobs/s"
    goal: Goal | None = None


class Ratio(Struct, frozen=True):
    """One reading over another, taken within each round so that both saw the same machine."""

    over: str
    under: str
    title: str
    goal: Goal | None = None

    @property
    def key(self) -> str:
        return f"{self.over} / {self.under}"


class Measure(Struct, frozen=True):
    """A question, and what its answer consists of. `take` answers it once."""

    name: str
    take: Callable[[Ground], Readings]
    figures: tuple[Figure, ...]
    ratios: tuple[Ratio, ...] = ()
