"""The run's side of the board on which worker processes chalk up what they have completed.

The run reads the rate from it without asking the store, which is busy with what is measured.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from bench.chalk import COMPLETED, SEEN, STARTED, USED, Slate

_LOOK = 0.003


class Score(Struct, frozen=True):
    """All workers together, at the moment the last of them completed something.

    Times are in nanoseconds; `used` is what the workers have spent on a processor since they were started.
    """

    started: int
    seen: int
    used: int
    completed: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.completed)

    @property
    def rate(self) -> float:
        return self.total / ((self.seen - self.started) / 1e9)

    @property
    def effort(self) -> float:
        """Microseconds on a processor for each job."""
        return self.used / self.total / 1e3

    def rate_since(self, earlier: Score) -> float:
        return (self.total - earlier.total) / ((self.seen - earlier.seen) / 1e9)


class Board:
    """The board of one measurement, with a row for each worker."""

    def __init__(self, path: Path, rows: int) -> None:
        self._rows = rows
        self._slate = Slate(path, rows)

    def score(self) -> Score:
        completed = self._column(COMPLETED)
        return Score(min(self._column(STARTED)), max(self._column(SEEN)), sum(self._column(USED)), tuple(completed))

    def wait_for(self, total: int, patience: float, check: Callable[[], None]) -> Score:
        """The score once it has reached the total. `check` may raise if there is no more hope."""
        deadline = time.monotonic() + patience
        while (score := self.score()).total < total:
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {patience:g} s only {score.total} of {total} jobs are completed")
            check()
            time.sleep(_LOOK)
        return score

    def close(self) -> None:
        self._slate.close()

    def _column(self, column: int) -> list[int]:
        return [self._slate.get(row, column) for row in range(self._rows)]
