"""A worker's side of the board: memory it shares with the run, in which it chalks up what it has completed.

Without packages, like `stage`: peers use it too.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

_NUMBER = struct.Struct("=q")
STARTED, SEEN, USED, COMPLETED = range(4)
_ROW = 4 * _NUMBER.size


class Slate:
    """Rows of four numbers in a file that several processes map."""

    def __init__(self, path: Path, rows: int) -> None:
        if not path.exists():
            path.write_bytes(bytes(rows * _ROW))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), rows * _ROW)

    def get(self, row: int, column: int) -> int:
        number: int = _NUMBER.unpack_from(self._memory, row * _ROW + column * _NUMBER.size)[0]
        return number

    def set(self, row: int, column: int, value: int) -> None:
        _NUMBER.pack_into(self._memory, row * _ROW + column * _NUMBER.size, value)

    def close(self) -> None:
        self._memory.close()


class Chalk:
    """One worker's row."""

    def __init__(self, path: Path, rows: int, row: int) -> None:
        self._slate = Slate(path, rows)
        self._row = row
        self._used_before = 0

    def start(self) -> None:
        self._used_before = time.process_time_ns()
        self._slate.set(self._row, STARTED, time.monotonic_ns())

    def chalk_up(self, completed: int) -> None:
        if completed != self._slate.get(self._row, COMPLETED):
            # The times first: whoever sees the count sees times that belong to it or are a little later.
            self._slate.set(self._row, SEEN, time.monotonic_ns())
            self._slate.set(self._row, USED, time.process_time_ns() - self._used_before)
            self._slate.set(self._row, COMPLETED, completed)
