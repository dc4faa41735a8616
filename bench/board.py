"""A board in shared memory on which worker processes chalk up what they have completed.

The run reads the rate from it without asking the store, which is busy with what is measured.
"""

from __future__ import annotations

import mmap
import struct
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

_NUMBER = struct.Struct("=q")
_STARTED, _SEEN, _USED, _COMPLETED = range(4)
_ROW = 4 * _NUMBER.size
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
        self._used_before = 0
        if not path.exists():
            path.write_bytes(bytes(rows * _ROW))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), rows * _ROW)

    # -- a worker's side

    def start(self, row: int) -> None:
        self._used_before = time.process_time_ns()
        self._set(row, _STARTED, time.monotonic_ns())

    def chalk_up(self, row: int, completed: int) -> None:
        if completed != self._get(row, _COMPLETED):
            # The times first: whoever sees the count sees times that belong to it or are a little later.
            self._set(row, _SEEN, time.monotonic_ns())
            self._set(row, _USED, time.process_time_ns() - self._used_before)
            self._set(row, _COMPLETED, completed)

    # -- the run's side

    def score(self) -> Score:
        completed = self._column(_COMPLETED)
        return Score(min(self._column(_STARTED)), max(self._column(_SEEN)), sum(self._column(_USED)), tuple(completed))

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
        self._memory.close()

    def _column(self, column: int) -> list[int]:
        return [self._get(row, column) for row in range(self._rows)]

    def _get(self, row: int, column: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, row * _ROW + column * _NUMBER.size)[0]
        return number

    def _set(self, row: int, column: int, value: int) -> None:
        _NUMBER.pack_into(self._memory, row * _ROW + column * _NUMBER.size, value)
