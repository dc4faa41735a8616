"""Where a value lies on a logarithmic scale, and what is written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import Struct

_MOST_DECADES = 5  # with a line for each; beyond that only for every other


class LogScale(Struct, frozen=True):
    """From the power of ten at or below the least value to the one at or above the greatest."""

    low: int
    high: int

    def share(self, value: float) -> float:
        """0 at the low end, 1 at the high one."""
        return (math.log10(value) - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        stride = 1 if self.high - self.low <= _MOST_DECADES else 2
        return [10.0**power for power in range(self.low, self.high + 1, stride)]


def scale_of(values: Sequence[float]) -> LogScale:
    """The scale of values above 0; at least one decade."""
    low = math.floor(math.log10(min(values)) + 1e-9)
    high = math.ceil(math.log10(max(values)) - 1e-9)
    return LogScale(low, max(high, low + 1))


_LARGE = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float) -> str:
    """Two digits and a letter: 12k, 1.5M, 0.25."""
    for unit, letter in _LARGE:
        if value >= unit:
            return f"{_two_digits(value / unit)}{letter}"
    return _two_digits(value)


def _two_digits(value: float) -> str:
    if value >= 10 or value == 0:
        return f"{value:.0f}"
    digits = max(0, 1 - math.floor(math.log10(value)))
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
