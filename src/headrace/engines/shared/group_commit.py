"""Group commit without a thread or a timer.

A caller appends its item to a list. If nobody leads, the caller becomes the leader: it commits everything on the list,
wakes those it served, and passes the lead to the first caller that came meanwhile. A lone caller pays for one
uncontended lock; under load the batches grow by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from headrace.errors import EngineUnavailable

T = TypeVar("T")
R = TypeVar("R")

_MOST = 1000

Flush = Callable[[list[T]], list[R]]


class Answer(Generic[R]):
    """The result of one item: a value or an error."""

    __slots__ = ("error", "value")

    def __init__(self, value: R | None, error: BaseException | None) -> None:
        self.value = value
        self.error = error

    def get(self) -> R:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # without an error there is a value


def flush_each(flush: Flush[T, R], items: Sequence[T]) -> list[Answer[R]]:
    """Flush all items at once; if that fails, one by one, so that a bad item fails alone.

    An unreachable store is asked only once: otherwise an outage would take its timeout for each caller.
    """
    try:
        return [Answer(value, None) for _, value in zip(items, flush(list(items)), strict=True)]
    except EngineUnavailable as error:
        return [Answer(None, error), *_likewise(error, items[1:])]
    except Exception as error:
        if len(items) == 1:
            return [Answer(None, error)]
    answers: list[Answer[R]] = []
    while len(answers) < len(items):
        answers += flush_each(flush, [items[len(answers)]])
        if isinstance(away := answers[-1].error, EngineUnavailable):
            answers += _likewise(away, items[len(answers) :])
    return answers


def _likewise(error: EngineUnavailable, items: Sequence[T]) -> list[Answer[R]]:
    """A separate error for each caller: one shared by several threads would collect the tracebacks of all."""
    return [Answer(None, EngineUnavailable(*error.args)) for _ in items]


class _Place(Generic[T, R]):
    """An item on the list. Its lock is released when it is served, or when its caller is to lead."""

    __slots__ = ("answer", "item", "lock")

    def __init__(self, item: T) -> None:
        self.item = item
        self.lock = threading.Lock()
        self.lock.acquire()
        self.answer: Answer[R] | None = None


class GroupCommit(Generic[T, R]):
    """Turns calls with one item each into calls of `flush` with many."""

    def __init__(self, flush: Flush[T, R]) -> None:
        self._flush = flush
        self._lock = threading.Lock()
        self._waiting: list[_Place[T, R]] = []
        self._leader: _Place[T, R] | None = None

    def call(self, item: T) -> R:
        """Flush the item, alone or with others, and return its value."""
        place: _Place[T, R] = _Place(item)
        with self._lock:
            self._waiting.append(place)
            if leads := self._leader is None:
                self._leader = place
        try:
            if not leads:
                place.lock.acquire()
            if place.answer is None:
                self._lead()
        finally:  # also after an interrupt, waiting or leading: no other caller may hang
            self._leave(place)
        assert place.answer is not None
        return place.answer.get()

    def _lead(self) -> None:
        with self._lock:
            places = self._waiting[:_MOST]
        answers = flush_each(self._flush, [place.item for place in places])
        for place, answer in zip(places, answers, strict=True):
            place.answer = answer
            place.lock.release()

    def _leave(self, place: _Place[T, R]) -> None:
        """Remove the place from the list; a leader also removes those it served and passes the lead on."""
        with self._lock:
            if self._leader is place:
                self._waiting = [other for other in self._waiting if other.answer is None and other is not place]
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None:
                    self._leader.lock.release()
            elif place.answer is None:
                self._waiting.remove(place)
