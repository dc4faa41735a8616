"""Compact histograms of durations: counts in bins that widen by a tenth, in whole milliseconds.

Any quantile is within 5 % of the true one, however many histograms were summed: bins are the same everywhere. Below
ten, each millisecond has its own bin; the last one holds everything beyond two years.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final

from msgspec import Struct, field

_MAX_MS = 2 * 366 * 86_400_000


def _bounds() -> list[int]:
    found = [0]
    while found[-1] < _MAX_MS:
        first = found[-1] + 1
        found.append(first * 11 // 10)  # the middle is within 5 % of both ends
    return found


# A bin holds durations above the previous bound, up to its own.
BOUNDS: Final = _bounds()
_bin_of = partial(bisect_left, BOUNDS)
# The bins of the first minute as a table: a lookup takes a quarter of the time of a search.
_FIRST_MINUTE = b"".join(
    bytes([n]) * (bound - before) for n, (before, bound) in enumerate(pairwise([-1, *BOUNDS[:100]]))
)


class Histogram(Struct, frozen=True, array_like=True):
    """Durations: their sum, the shortest, the longest, and the counts of non-empty bins."""

    total: int = 0
    least: int = 0
    most: int = 0
    bins: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, durations: Sequence[int]) -> Histogram:
        """Durations in milliseconds; negative ones, from a clock that was set back, count as 0."""
        if not durations:
            return NOTHING
        least, most = min(durations), max(durations)
        if least < 0:
            return cls.of([max(each, 0) for each in durations])
        # Loops in C only: every job of a store passes through here, some ten thousand a second.
        bins = Counter(map(_FIRST_MINUTE.__getitem__ if most < len(_FIRST_MINUTE) else _bin_of, durations))
        return cls(sum(durations), least, most, dict(bins))

    @property
    def count(self) -> int:
        return sum(self.bins.values())

    @property
    def mean(self) -> float | None:
        return self.total / count if (count := self.count) else None

    def plus(self, other: Histogram) -> Histogram:
        """The sum of both."""
        return merged((self, other))

    def quantile(self, share: float) -> float | None:
        """The duration that this share of all does not exceed, to within 5 %; None if there are none."""
        if not self.bins:
            return None
        rank, numbers = share * self.count, sorted(self.bins)
        reached = accumulate(self.bins[number] for number in numbers)
        number = next((number for number, count in zip(numbers, reached, strict=True) if count >= rank), numbers[-1])
        return min(max(self._middle(number), self.least), self.most)

    def _middle(self, number: int) -> float:
        if number == 0 or number >= len(BOUNDS):
            return 0 if number == 0 else self.most
        return (BOUNDS[number - 1] + 1 + BOUNDS[number]) / 2

    def cumulative(self, bounds: Iterable[int]) -> list[int]:
        """How many are not longer than each of these bounds, which are among BOUNDS."""
        numbers = sorted(self.bins)
        reached = [0, *accumulate(self.bins[number] for number in numbers)]
        return [reached[bisect_right(numbers, _bin_of(bound))] for bound in bounds]


NOTHING: Final = Histogram()


def merged(histograms: Iterable[Histogram]) -> Histogram:
    """The sum of all."""
    some = [each for each in histograms if each.bins]
    if len(some) < 2:
        return some[0] if some else NOTHING
    bins = dict(some[0].bins)
    for each in some[1:]:
        for number, count in each.bins.items():
            bins[number] = bins.get(number, 0) + count
    return Histogram(
        sum(each.total for each in some), min(each.least for each in some), max(each.most for each in some), bins
    )
