"""One module for each peer, which runs in an environment where nothing but that peer is installed.

Each has a function `open_side(url, option, act)` that answers with what the protocol here asks for. `act` is the job:
it takes the number the job was enqueued with and returns it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

Act = Callable[[int], int]


class Side(Protocol):
    """A peer set up on a store, at its best settings for jobs that do nothing."""

    def prepare(self) -> None:
        """Make the tables, if it needs any."""
        ...

    def enqueue(self, numbers: Iterable[int]) -> None:
        """One job after the other, as a program would."""
        ...

    def fill(self, numbers: Iterable[int]) -> None:
        """Many jobs, in bulk if there is such a thing."""
        ...

    def work(self) -> None:
        """Be one worker process, until the process ends."""
        ...

    def left(self) -> int:
        """How many jobs are not yet over, in the eyes of the store."""
        ...

    def kept(self) -> int:
        """How many results or, if it keeps none, records of finished jobs the store holds."""
        ...
