"""Group commit without a thread or a timer.

A caller puts its item on a list. Whoever finds nobody leading becomes the leader: it commits everything that is on
the list by then, wakes those it served, and hands the lead to the first of those who came meanwhile. A lone caller
pays for one uncontended lock; under load the batches grow by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_MOST = 1000

Flush = Callable[[list[T]], list[R]]


class Answer(Generic[R]):
    """What became of one item: a value or an error."""

    __slots__ = ("error", "value")

    def __init__(self, value: R | None, error: BaseException | None) -> None:
        self.value = value
        self.error = error

    def get(self) -> R:
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]


def flush_each(flush: Flush[T, R], items: Sequence[T]) -> list[Answer[R]]:
    """Flush all items at once; if that fails, one by one, so that a bad one fails alone."""
    try:
        return [Answer(value, None) for _, value in zip(items, flush(list(items)), strict=True)]
    except Exception as error:
        if len(items) == 1:
            return [Answer(None, error)]
    return [flush_each(flush, [item])[0] for item in items]


class _Place(Generic[T, R]):
    """An item on the list. Its gate opens when it is served, or when its caller is to lead."""

    __slots__ = ("answer", "gate", "item")

    def __init__(self, item: T) -> None:
        self.item = item
        self.gate = threading.Lock()
        self.gate.acquire()
        self.answer: Answer[R] | None = None


class Batch(Generic[T, R]):
    """Turns calls with one item each into calls of `flush` with many."""

    def __init__(self, flush: Flush[T, R]) -> None:
        self._flush = flush
        self._lock = threading.Lock()
        self._waiting: list[_Place[T, R]] = []
        self._led = False

    def call(self, item: T) -> R:
        """Have the item flushed, alone or with others, and answer for it."""
        place: _Place[T, R] = _Place(item)
        with self._lock:
            self._waiting.append(place)
            leads, self._led = not self._led, True
        try:
            if not leads:
                place.gate.acquire()
            if place.answer is None:
                self._lead()
        except BaseException:
            self._step_down(place)
            raise
        assert place.answer is not None
        return place.answer.get()

    def _lead(self) -> None:
        with self._lock:
            places = self._waiting[:_MOST]
        answers = flush_each(self._flush, [place.item for place in places])
        served = set(places)
        with self._lock:  # not simply the first ones: an interrupted caller may have left the list meanwhile
            self._waiting = [place for place in self._waiting if place not in served]
        for place, answer in zip(places, answers, strict=True):
            place.answer = answer
            place.gate.release()
        self._pass_on()

    def _step_down(self, place: _Place[T, R]) -> None:
        """An interrupt of this caller, waiting or leading, must not strand the others: somebody else leads them."""
        with self._lock:
            if place not in self._waiting:
                return  # served meanwhile
            led = self._waiting[0] is place
            self._waiting.remove(place)
        if led:
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            self._led = bool(self._waiting)
            if self._waiting:
                self._waiting[0].gate.release()
