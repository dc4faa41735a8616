"""A circuit breaker around an external service, shared by all processes of a store. It knows nothing of the worker.

While it is open, `with` raises BreakerOpen, a Snooze: the job is put back without spending an attempt.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from headrace.core.documents import Document
from headrace.core.tasks.breaker import KIND, BreakerRecord, BreakerRule, document_of, record_of
from headrace.core.text import counted
from headrace.engines.protocol.documents import DocumentStore
from headrace.engines.protocol.engine import Engine
from headrace.errors import BreakerOpen, CancelJob, EngineUnavailable, PermanentError, Snooze
from headrace.runtime.jobs.async_twin import in_thread, twin

_READ_EVERY = 1.0  # seconds: while nothing fails, a process reads the store no more often
_TRIES = 20  # of a write that another process may precede
_SPREAD = 0.1  # part of the wait, so that not all jobs come back at once
_ANSWERED = (Snooze, CancelJob, PermanentError)  # what a task raises about its job, not about the service


def reset_breaker(store: DocumentStore, name: str) -> bool:
    """Close the breaker of this name, as if nothing had failed; False if nothing had."""
    had_failed = False
    while stored := store.get(KIND, [name]):
        had_failed = True
        if store.put((), stored):  # otherwise a call has changed it meanwhile
            break
    return had_failed


class Breaker:
    """Guards calls: `with app.breaker("stripe"): ...`, or `async with`."""

    def __init__(
        self, engine: Callable[[], Engine], name: str, rule: BreakerRule, on: tuple[type[Exception], ...]
    ) -> None:
        self._name = name
        self._engine = engine
        self._rule = rule
        self._on = on
        self._known: tuple[Engine, float, Document | None] | None = None

    @property
    def name(self) -> str:
        """Its name; breakers of one name are one breaker."""
        return self._name

    @property
    def is_open(self) -> bool:
        """Whether calls are refused now."""
        return record_of(self._read()).wait(self._now(), 1) > 0

    def reset(self) -> None:
        """Close it, as if nothing had failed."""
        reset_breaker(self._engine().document_store, self.name)
        self._known = None

    areset = twin(reset)

    def __enter__(self) -> Self:
        try:
            self._admit()
        except EngineUnavailable:  # it must not be the reason why a call fails
            self._known = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._concerns(error):
            self._record(error)

    async def __aenter__(self) -> Self:
        return self.__enter__() if self._is_known_closed() else await in_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._concerns(error):
            await in_thread(self._record, error)

    # -- before the call

    def _admit(self) -> None:
        """Return if the call may begin, else raise BreakerOpen. After the pause one call tries, in all processes."""
        if self._is_known_closed():
            return
        stored = self._read()  # always before a refusal: an operator may have reset the breaker
        for _ in range(_TRIES):
            record, now = record_of(stored), self._now()
            retry = max(self._rule.open_for // 10, 1)
            if (wait := record.wait(now, retry)) > 0:
                raise self._refusal(record, wait)
            if not record.open_until:
                return
            trying = document_of(self.name, stored.version if stored else 0, record.tried(self._rule, now))
            if self._engine().document_store.put([trying]):
                self._known = None
                return
            stored = self._read()  # another process was first

    def _refusal(self, record: BreakerRecord, wait: int) -> BreakerOpen:
        failures = counted(record.failures, "failure")
        text = f"breaker {self.name!r} is open after {failures}, the last one {record.error}"
        return BreakerOpen(wait / 1000 * (1 + _SPREAD * random.random()), text)

    # -- after the call

    def _concerns(self, error: BaseException | None) -> bool:
        """Whether its end changes anything. A success of a closed breaker, the usual case, costs nothing."""
        if error is not None and (self._is_failure(error) or not isinstance(error, Exception)):
            return isinstance(error, Exception)
        return self._known is None or record_of(self._known[2]).failures > 0

    def _is_failure(self, error: BaseException | None) -> bool:
        return isinstance(error, self._on) and not isinstance(error, _ANSWERED)

    def _record(self, error: BaseException | None) -> None:
        kind = type(error).__name__
        try:
            if self._is_failure(error):
                self._change(lambda record, now: record.after_failure(self._rule, kind, now))
            else:
                self._change(lambda record, now: None if record.closes(now) else record)
        except EngineUnavailable:  # the call has ended; what it returned or raised counts
            self._known = None

    def _change(self, change: Callable[[BreakerRecord, int], BreakerRecord | None]) -> None:
        """Store the changed record, or delete it for None."""
        for _ in range(_TRIES):
            stored = self._read()
            record = record_of(stored)
            changed = change(record, self._now())
            if changed == record or (changed is None and stored is None):
                return
            new = [document_of(self.name, stored.version if stored else 0, changed)] if changed else []
            old = [stored] if stored is not None and changed is None else []
            if self._engine().document_store.put(new, old):
                self._known = None
                return

    # -- the store

    def _is_known_closed(self) -> bool:
        """Whether the last reading, of less than a second ago, lets calls through."""
        known = self._known
        if known is None or known[0] is not self._engine() or time.monotonic() - known[1] >= _READ_EVERY:
            return False
        return not record_of(known[2]).open_until

    def _read(self) -> Document | None:
        engine = self._engine()
        stored = next(iter(engine.document_store.get(KIND, [self.name])), None)
        self._known = (engine, time.monotonic(), stored)
        return stored

    def _now(self) -> int:
        return self._engine().clock.now()

    def __repr__(self) -> str:
        return f"<Breaker {self.name}>"
