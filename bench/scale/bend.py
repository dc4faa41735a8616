"""Where a curve bends: computed from its points."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

BENDS_BELOW = 0.8
HALVES_BELOW = 0.5

Point = tuple[float, float]  # the step, and what was read there


class Bend(Struct, frozen=True):
    """The step from which on a rate stays below a share of the best one before it."""

    step: float
    value: float
    best_step: float
    best: float

    @property
    def share(self) -> float:
        return self.value / self.best


def bend_of(points: Sequence[Point], below: float = BENDS_BELOW) -> Bend | None:
    """The first bend of a rate, of points in the order of their steps.

    A step below the share after which the rate comes back is a dent, not a bend: something else was busy then.
    """
    best_step, best = 0.0, 0.0
    for index, (step, value) in enumerate(points):
        if value > best:
            best_step, best = step, value
        elif value < below * best and all(later < below * best for _, later in points[index:]):
            return Bend(step, value, best_step, best)
    return None


def bend_of_times(points: Sequence[Point], below: float = BENDS_BELOW) -> Bend | None:
    """The same of times, which are better the shorter they are; its values are times again."""
    bend = bend_of([(step, 1 / value) for step, value in points if value > 0], below)
    return bend and Bend(bend.step, 1 / bend.value, bend.best_step, 1 / bend.best)
