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
_COLUMNS = 3  # when the worker was started, when it last completed something, how much it has completed
_ROW = _COLUMNS * _NUMBER.size
_LOOK = 0.003


class Score(Struct, frozen=True):
    """All workers together, at the moment the last of them completed something. Times are in nanoseconds."""

    started: int
    seen: int
    completed: tuple[int, ...]

    @property
    def total(self) -> int:
        return sum(self.completed)

    @property
    def rate(self) -> float:
        return self.total / ((self.seen - self.started) / 1e9)

    def rate_since(self, earlier: Score) -> float:
        return (self.total - earlier.total) / ((self.seen - earlier.seen) / 1e9)


class Board:
    """The board of one measurement, with a row for each worker."""

    def __init__(self, path: Path, rows: int) -> None:
        self._rows = rows
        if not path.exists():
            path.write_bytes(bytes(rows * _ROW))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), rows * _ROW)

    # -- a worker's side

    def start(self, row: int) -> None:
        self._set(row, 0, time.monotonic_ns())

    def chalk_up(self, row: int, completed: int) -> None:
        if completed != self._get(row, 2):
            # The time first: whoever sees the count sees a time that belongs to it or is a little later.
            self._set(row, 1, time.monotonic_ns())
            self._set(row, 2, completed)

    # -- the run's side

    def score(self) -> Score:
        rows = range(self._rows)
        completed = tuple(self._get(row, 2) for row in rows)
        return Score(min(self._get(row, 0) for row in rows), max(self._get(row, 1) for row in rows), completed)

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

    def _get(self, row: int, column: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, row * _ROW + column * _NUMBER.size)[0]
        return number

    def _set(self, row: int, column: int, value: int) -> None:
        _NUMBER.pack_into(self._memory, row * _ROW + column * _NUMBER.size, value)
