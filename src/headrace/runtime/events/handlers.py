"""Event handlers: each subscription has a name and a position in the stream, which the store keeps for all processes.

Any process with the handler may call it, one at a time: a process puts its name into the subscription's document, and
acts only while the document has its version. After a kill -9 another process continues from the last stored position,
so a handler may see an event twice, but never misses one.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from headrace.core.clock import Clock
from headrace.core.damaged_records import read_or
from headrace.core.documents import STAYS, Document
from headrace.core.events.event import Event, EventFilter
from headrace.core.events.log import EventGroup
from headrace.core.text import why
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.event_log import last_cursor
from headrace.runtime.events.follow import POLL, EventReader
from headrace.runtime.process.outage_log import outage_log

log = logging.getLogger("headrace.events")

KIND = f"{STAYS}subscriptions"
_LEASE_MS = 30_000  # how long a handler may take before another process may take over
_SAVE_EVERY = 1.0  # seconds between two writes of the position, so that many quick events share one
_LONGEST_WAIT = 60.0  # seconds without a ring after which events are read anyway: a ring may be lost
_LONGEST_WAIT_UNUSED = 300.0  # seconds, while the filter lets no event through
_FILTER_RECHECK = 10.0  # seconds after a ring: a changed filter rings, but may be read less often
_PAUSES = (0.1, 1.0, 5.0)  # before a handler that raised is tried again; then its event is skipped
_OUTAGE = 1.0
_STOP_WITHIN = 5.0  # seconds that stop() waits for a handler
_LAST_PAUSE = 0.02


class Subscription(Struct, frozen=True):
    """A handler, its filter, and its name. With `everywhere` it has no position in the store.

    The filter may change: then `current_filter` returns it, or None if it matches nothing now. Called with False, its
    answer may be some seconds old; called with True, it returns the current filter. A change rings for "events".

    Errors of type `waits_for` are temporary: no event is skipped because of them.
    """

    name: str
    handler: Callable[[Event], Any]
    wanted: EventFilter
    everywhere: bool = False
    current_filter: Callable[[bool], EventFilter | None] | None = None
    waits_for: tuple[type[Exception], ...] = ()


class HandlerCursor(Struct, frozen=True, omit_defaults=True):
    """The position of a subscription, and which process has it until when."""

    cursor: str
    holder: str = ""
    until: int = 0
    passed_over: int = 0


_place = msgspec.json.Decoder(HandlerCursor)


class EventHandlers:
    """A thread that calls the event handlers of one process, from start() to stop().

    With `finish`, stop() lets them handle the events so far: a draining worker may have no successor.
    """

    def __init__(
        self, engine: Engine, clock: Clock, who: str, subscriptions: Sequence[Subscription], *, finish: bool = False
    ) -> None:
        self._engine = engine
        self._who = who
        self._finish = finish
        self._ending, self._stopping = threading.Event(), threading.Event()
        self._runs = [_HandlerRun(engine, clock, who, each, self._stopping) for each in subscriptions]
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._runs:
            self._bell = self._engine.listen("events")
            for run in self._runs:
                run.open()
            self._thread = threading.Thread(target=self._listen, name="headrace-listener", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread is not None and self._finish:
            self._thread.join(_STOP_WITHIN)
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_STOP_WITHIN)
            self._bell.close()

    def _listen(self) -> None:
        with asyncio.Runner() as runner:  # one loop for all handlers that are coroutines
            is_away = False
            while not (self._stopping if self._finish else self._ending).is_set():
                is_ending = self._ending.is_set()
                pause, is_rung = POLL, self._bell.wait(0.0) or is_ending
                was_away, is_away = is_away, False
                for run in self._runs:
                    try:
                        run.advance(runner, is_rung)
                    except EngineUnavailable as error:
                        outage_log(self._engine).failed(error)
                        pause, is_away = _OUTAGE, True
                    except Exception:
                        log.exception("subscription %s failed; continuing", run.name)
                        pause = _OUTAGE
                if was_away and not is_away:
                    outage_log(self._engine).worked()
                if is_ending:
                    if pause > POLL or not any(run.has_work for run in self._runs):
                        break  # after an outage or error, the next worker continues
                    self._stopping.wait(_LAST_PAUSE)
                else:
                    self._ending.wait(pause)
            for run in self._runs:
                run.leave()


class _HandlerRun:
    """One subscription in one process."""

    def __init__(
        self, engine: Engine, clock: Clock, who: str, subscription: Subscription, stopping: threading.Event
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._who = who
        self._subscription = subscription
        self._stopping = stopping
        current_filter = subscription.current_filter
        read_filter = None if current_filter is None else lambda: current_filter(True)
        self._follower = EventReader(engine.events, subscription.wanted, None, read_filter)
        self._document: Document | None = None  # as we put it; None while another process may have the subscription
        self._place = HandlerCursor("0")
        self._saved_at = 0.0
        self._seen = ""
        self._failures, self._wait_until = 0, 0.0
        self._next_run_at = 0.0
        self._taken_until = 0  # by another process
        self.name = subscription.name

    def open(self) -> None:
        """Start at the current end of the stream, unless the subscription has a position."""
        now = last_cursor(self._engine.events)
        if self._subscription.everywhere:
            self._follower.cursor = now
            self._reach(now)  # the position to continue from if the first handled event has to be repeated
        elif self._subscription.current_filter is None and not self._engine.document_store.get(KIND, [self.name]):
            self._engine.document_store.put(
                [Document(KIND, self.name, 0, _text(HandlerCursor(now)))]
            )  # unless another process just did

    def advance(self, runner: asyncio.Runner, is_rung: bool) -> None:
        """Handle new events, if the bell rang or something is left to do."""
        if is_rung:
            self._next_run_at = 0.0
        if time.monotonic() >= max(self._next_run_at, self._wait_until):
            self._next_run_at = time.monotonic() + self._handle_new(runner, is_rung)

    @property
    def has_work(self) -> bool:
        """Whether this process has events left to handle: it was interrupted, or a handler raised."""
        return time.monotonic() >= self._next_run_at

    def _handle_new(self, runner: asyncio.Runner, is_rung: bool) -> float:
        """Handle new events; returns the seconds until there is something to do without a ring."""
        if self._subscription.current_filter is not None and self._subscription.current_filter(False) is None:
            return _FILTER_RECHECK if is_rung else _LONGEST_WAIT_UNUSED
        newest = last_cursor(self._engine.events)
        if newest != self._seen:
            if not self._is_holder():
                left = (self._taken_until - self._clock.now()) / 1000
                return min(max(left, 0.0), _LONGEST_WAIT)
            if not self._catch_up(runner):
                return 0.0
            self._seen = newest
        if self._document is not None and self._save_if_due() and self._is_ahead():
            return _SAVE_EVERY
        return _LONGEST_WAIT

    def _catch_up(self, runner: asyncio.Runner) -> bool:
        """Handle all events; False if interrupted.

        The reader is ahead of the handled events. After any interruption, also an outage while the position is written,
        the next call begins behind the last handled event.
        """
        try:
            while not self._stopping.is_set():
                for event in self._follower.more():
                    if not self._handle(runner, event) or self._stopping.is_set():
                        return False
                self._reach(self._follower.cursor or "0")
                if self._follower.is_at_end:
                    return True
                # Otherwise our lease would expire during a long backlog, for each process in turn.
                if not self._save_if_due():
                    return False
            return False
        finally:
            self._follower.cursor = self._place.cursor

    def leave(self) -> None:
        """Release the lease, so that another process can continue at once."""
        if self._document is not None:
            self._place = structs.replace(self._place, holder="", until=0)
            with contextlib.suppress(EngineUnavailable):
                self._put()
                self._engine.ring("events")

    def _is_holder(self) -> bool:
        """Whether this process may handle events: always with `everywhere`, otherwise if no other process does."""
        if self._subscription.everywhere:
            return True
        now = self._clock.now()
        if self._document is not None and now + _LEASE_MS // 2 < self._place.until <= now + _LEASE_MS:
            return True
        found = self._engine.document_store.get(KIND, [self.name])
        document = (
            found[0] if found else Document(KIND, self.name, 0, _text(HandlerCursor(last_cursor(self._engine.events))))
        )
        place = read_or(_place.decode, document.value, None) or HandlerCursor(last_cursor(self._engine.events))
        # A time beyond a whole lease comes from a wrong clock.
        if place.holder not in ("", self._who) and now < place.until <= now + _LEASE_MS:
            self._document, self._taken_until = None, place.until
            return False
        if self._document is None or document.version != self._document.version:
            self._document, self._place = document, place
            self._follower.cursor = place.cursor
        self._place = structs.replace(self._place, holder=self._who, until=now + _LEASE_MS)
        return self._put()

    def _put(self) -> bool:
        assert self._document is not None
        document = structs.replace(self._document, value=_text(self._place))
        self._document = (
            structs.replace(document, version=document.version + 1)
            if self._engine.document_store.put([document])
            else None
        )
        self._saved_at = time.monotonic()
        return self._document is not None

    def _reach(self, cursor: str) -> None:
        self._place = structs.replace(self._place, cursor=cursor)

    def _save_if_due(self) -> bool:
        """Write our position, unless that was a moment ago; False if another process took over."""
        return time.monotonic() - self._saved_at < _SAVE_EVERY or self._save()

    def _save(self) -> bool:
        """Write our position, if it has changed; False if another process took over."""
        if self._subscription.everywhere:
            return True
        if self._document is None:
            return False
        if not self._is_ahead():
            return True
        self._place = structs.replace(self._place, until=self._clock.now() + _LEASE_MS)
        return self._put()

    def _is_ahead(self) -> bool:
        """Whether we are ahead of the stored position."""
        return self._document is not None and _place.decode(self._document.value).cursor != self._place.cursor

    def _handle(self, runner: asyncio.Runner, event: Event) -> bool:
        """Call the handler; False if it raised and is to be repeated, or if another process took over."""
        try:
            answer = self._subscription.handler(event)
            if inspect.iscoroutine(answer):
                runner.run(answer)
        except BaseException as error:  # also SystemExit or a cancel, which would end this thread and all handlers
            if self._is_tried_again(error):
                log.warning("subscription %s: %s, at %s; trying again", self.name, why(error), event.cursor)
                return False
            self._skip(event, error)
        self._failures = 0
        self._reach(event.cursor)
        return self._save_if_due()

    def _is_tried_again(self, error: BaseException) -> bool:
        """Pause and return True if the event is to be tried again."""
        if self._failures >= len(_PAUSES) and not isinstance(error, self._subscription.waits_for):
            return False
        self._wait_until = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        return True

    def _skip(self, event: Event, error: BaseException) -> None:
        log.error("subscription %s: event %s is skipped", self.name, event.cursor, exc_info=error)
        data = {"subscription": self.name, "cursor": event.cursor, "event": event.type, "error": why(error)[:500]}
        if event.type != "worker.error":  # otherwise a handler of these would loop forever
            self._engine.events.append([EventGroup("worker.error", self._clock.now(), worker=self._who, data=[data])])
        self._place = structs.replace(self._place, passed_over=self._place.passed_over + 1)


def _text(place: HandlerCursor) -> str:
    return msgspec.json.encode(place).decode()
