"""How much work a run does."""

from __future__ import annotations

import msgspec
from msgspec import Struct


class Sizes(Struct, frozen=True):
    """How much work a run does."""

    jobs: int  # a drain, and what a worker has behind it when its memory is looked at
    singles: int  # enqueued one at a time
    bulk: int  # enqueued in batches
    samples: int  # jobs whose way from enqueue to start is timed; a third of them for a peer
    idle_seconds: float
    shallow: int  # jobs waiting in a store that counts as empty, and drained from each of them
    deep: int  # jobs waiting in a store that counts as full
    history: int  # jobs finished in a store that is old
    imports: int


FULL = Sizes(
    jobs=100_000,
    singles=20_000,
    bulk=200_000,
    samples=300,
    idle_seconds=10.0,
    shallow=20_000,
    deep=1_000_000,
    history=1_000_000,
    imports=5,
)
QUICK = Sizes(
    jobs=20_000,
    singles=4_000,
    bulk=40_000,
    samples=60,
    idle_seconds=3.0,
    shallow=5_000,
    deep=100_000,
    history=100_000,
    imports=3,
)
_HUGE = 10_000_000


def with_huge_history(sizes: Sizes) -> Sizes:
    """The same work beside ten million finished jobs."""
    return msgspec.structs.replace(sizes, history=_HUGE)
