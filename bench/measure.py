"""What a measure is: a function that answers one question once, and the figures it answers with.

Knows nothing of how often it is run or how the answers are printed.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

Durability = Literal["normal", "full"]
Readings = dict[str, float]


class Goal(Struct, frozen=True):
    """A limit a figure should keep. Missing it is worth a look, not an error: machines are noisy."""

    kind: Literal["at least", "at most"]
    value: float

    def is_met_by(self, figure: float) -> bool:
        return figure >= self.value if self.kind == "at least" else figure <= self.value


class Figure(Struct, frozen=True):
    """A number a measure reads, under the key of its readings."""

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


class Sizes(Struct, frozen=True):
    """How much work a run does."""

    jobs: int  # a drain, and what a worker has behind it when its memory is looked at
    peer_jobs: int  # a drain by huey, which needs fewer of them for a steady rate
    singles: int  # enqueued one at a time
    bulk: int  # enqueued in batches
    samples: int  # jobs whose way from enqueue to start is timed
    idle_seconds: float
    shallow: int  # jobs waiting in a store that counts as empty, and drained from each of them
    deep: int  # jobs waiting, or finished, in a store that counts as full
    imports: int


FULL = Sizes(
    jobs=100_000,
    peer_jobs=20_000,
    singles=20_000,
    bulk=200_000,
    samples=300,
    idle_seconds=10.0,
    shallow=10_000,
    deep=1_000_000,
    imports=5,
)
QUICK = Sizes(
    jobs=20_000,
    peer_jobs=5_000,
    singles=4_000,
    bulk=40_000,
    samples=60,
    idle_seconds=3.0,
    shallow=5_000,
    deep=100_000,
    imports=5,
)


class Ground:
    """Where measures take place: a folder of their own, a durability, and the amount of work."""

    def __init__(self, folder: Path, durability: Durability, sizes: Sizes) -> None:
        self.folder = folder
        self.durability = durability
        self.sizes = sizes
        self._numbers = itertools.count(1)
        self._kept: dict[str, Path] = {}

    def path(self, suffix: str = ".db") -> Path:
        """A fresh name. Short, because the doorbell's sockets lie below it and their paths have a limit."""
        return self.folder / f"{next(self._numbers)}{suffix}"

    @contextlib.contextmanager
    def store(self) -> Iterator[Path]:
        """A path for a store that is removed afterwards, with everything beside it."""
        path = self.path()
        try:
            yield path
        finally:
            _remove(path)

    def kept(self, name: str, build: Callable[[Path], None]) -> Path:
        """A store that is too large to build for every round: made once, removed with the folder."""
        if name not in self._kept:
            path = self.path()
            build(path)
            self._kept[name] = path
        return self._kept[name]


def _remove(path: Path) -> None:
    for left in path.parent.glob(f"{path.name}*"):
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
        else:
            left.unlink(missing_ok=True)


class Measure(Struct, frozen=True):
    """A question, and what its answer consists of. `take` answers it once."""

    name: str
    take: Callable[[Ground], Readings]
    figures: tuple[Figure, ...]
    ratios: tuple[Ratio, ...] = ()
