"""Group commit without a thread or a timer.

Callers put their item on a list and queue up at a lock; whoever gets it commits everything that is on the list, and
the others find theirs done. A lone caller pays for one uncontended lock. The async API calls from executor threads,
so one mechanism serves both.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST = 1000


class _Place(Generic[T, R]):
    """An item on the list, and what became of it."""

    __slots__ = ("answer", "error", "item")

    def __init__(self, item: T) -> None:
        self.item = item
        self.answer: tuple[R] | None = None
        self.error: BaseException | None = None

    @property
    def served(self) -> bool:
        return self.answer is not None or self.error is not None


class Batch(Generic[T, R]):
    """Turns calls with one item each into calls of `flush` with many."""

    def __init__(self, flush: Callable[[list[T]], list[R]]) -> None:
        self._flush = flush
        self._waiting: deque[_Place[T, R]] = deque()
        self._turn = threading.Lock()

    def call(self, item: T) -> R:
        """Have the item flushed, alone or with others, and answer for it."""
        place: _Place[T, R] = _Place(item)
        self._waiting.append(place)
        with self._turn:
            while not place.served:
                self._serve()
        if place.error is not None:
            raise place.error
        assert place.answer is not None
        return place.answer[0]

    def _serve(self) -> None:
        places = [self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST))]
        try:
            self._commit(places)
        except Exception as error:
            if len(places) == 1:
                places[0].error = error
            else:
                self._one_by_one(places)
        except BaseException as error:  # an interrupt of this thread must not leave the others waiting
            for place in places:
                place.error = error
            raise

    def _commit(self, places: list[_Place[T, R]]) -> None:
        for place, answer in zip(places, self._flush([place.item for place in places]), strict=True):
            place.answer = (answer,)

    def _one_by_one(self, places: list[_Place[T, R]]) -> None:
        """One bad item fails alone."""
        for place in places:
            try:
                self._commit([place])
            except Exception as error:
                place.error = error
