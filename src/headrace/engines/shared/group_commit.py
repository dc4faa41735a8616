"""Group commit without a thread or a timer.

A caller appends its item to a list. If there is no leader, the caller becomes it: it commits everything on the list,
wakes those it served, and passes the lead to the first caller that came meanwhile. A lone caller pays for two
uncontended locks; under load the batches grow by themselves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from headrace.engines.shared.shield import shielded
from headrace.errors import EngineUnavailable

T = TypeVar("T")
R = TypeVar("R")

_MAX_BATCH = 1000

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

    An unreachable store is tried only once: otherwise an outage would take its timeout for each caller.
    """
    try:
        return [Answer(value, None) for _, value in zip(items, flush(list(items)), strict=True)]
    except EngineUnavailable as error:
        return [Answer(None, error), *_same_error(error, items[1:])]
    except Exception as error:
        if len(items) == 1:
            return [Answer(None, error)]
    answers: list[Answer[R]] = []
    while len(answers) < len(items):
        answers += flush_each(flush, [items[len(answers)]])
        if isinstance(unavailable := answers[-1].error, EngineUnavailable):
            answers += _same_error(unavailable, items[len(answers) :])
    return answers


def _same_error(error: EngineUnavailable, items: Sequence[T]) -> list[Answer[R]]:
    """A separate error for each caller: one shared by several threads would collect the tracebacks of all."""
    return [Answer(None, EngineUnavailable(*error.args)) for _ in items]


class _Waiter(Generic[T, R]):
    """An item on the list. Its lock is released when it is served, or when its caller is to lead."""

    __slots__ = ("answer", "item", "lock")

    def __init__(self, item: T) -> None:
        self.item = item
        self.lock = threading.Lock()
        self.lock.acquire()
        self.answer: Answer[R] | None = None


_ALONE: _Waiter[Any, Any] = _Waiter(None)  # the leader that came while no caller waited: it is not on the list


class GroupCommit(Generic[T, R]):
    """Turns calls with one item each into calls of `flush` with many."""

    def __init__(self, flush: Flush[T, R]) -> None:
        self._flush = flush
        self._lock = threading.Lock()
        self._waiting: list[_Waiter[T, R]] = []
        self._leader: _Waiter[T, R] | None = None

    @shielded
    def call(self, item: T) -> R:
        """Flush the item, alone or with others, and return its value."""
        waiter: _Waiter[T, R] | None = None
        try:
            with self._lock:
                if self._leader is None:
                    waiter = self._leader = _ALONE
                else:
                    waiter = _Waiter(item)
                    self._waiting.append(waiter)
            if waiter is _ALONE:
                [value] = self._flush([item])
                return value
            waiter.lock.acquire()
            if waiter.answer is None:
                self._lead()
        finally:  # also after an interrupt, waiting or leading: no other caller may hang
            if waiter is not None:
                self._leave(waiter)
        assert waiter.answer is not None
        return waiter.answer.get()

    def _lead(self) -> None:
        with self._lock:
            waiters = self._waiting[:_MAX_BATCH]
        answers = flush_each(self._flush, [waiter.item for waiter in waiters])
        for waiter, answer in zip(waiters, answers, strict=True):
            waiter.answer = answer
            waiter.lock.release()

    def _leave(self, waiter: _Waiter[T, R]) -> None:
        """Remove the place from the list; a leader also removes those it served and passes the lead on."""
        with self._lock:
            if self._leader is waiter:
                self._waiting = [other for other in self._waiting if other.answer is None and other is not waiter]
                self._leader = self._waiting[0] if self._waiting else None
                if self._leader is not None:
                    self._leader.lock.release()
            elif waiter.answer is None and waiter in self._waiting:  # interrupted while it waited
                self._waiting.remove(waiter)
