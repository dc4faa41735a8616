"""Handlers of events: each subscription has a name and a place in the stream, which the store remembers for all.

Any process that knows the handler may call it, one at a time: who begins puts its name on the subscription's paper, and
whatever it does afterwards it does as long as the paper is at its version. After a kill -9 another one goes on where
the last place was noted, so a handler may see an event twice, but never misses one.
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
from headrace.runtime.events.follow import POLL, EventReader

log = logging.getLogger("headrace.events")

KIND = f"{STAYS}subscriptions"
_TERM = 30_000  # milliseconds that a handler may take before another process may begin the same
_NOTE_EVERY = 1.0  # seconds between two notes of the place, so that many quick events share one
_LONGEST = 60.0  # seconds without a ring after which events are looked for all the same: a ring may be lost
_ASK_AGAIN = 10.0  # seconds after a ring: who makes a wish rings, but what is wanted may be asked for more seldom
_PAUSES = (0.1, 1.0, 5.0)  # before a handler that raised is tried again; then its event is passed over
_OUTAGE = 1.0


class Subscription(Struct, frozen=True):
    """A handler, what it wants, and its name. One that is `everywhere` has no place in the store.

    What is wanted may change: then it is asked for, and None means that nothing is, for now. Whether to listen at all
    is asked often, and the answer may be some seconds old; with True, it is what is wanted now. A change rings for
    "events".

    What it `waits_for` is over some time: for that no event is passed over.
    """

    name: str
    handler: Callable[[Event], Any]
    wanted: EventFilter
    everywhere: bool = False
    ask: Callable[[bool], EventFilter | None] | None = None
    waits_for: tuple[type[Exception], ...] = ()


class HandlerCursor(Struct, frozen=True, omit_defaults=True):
    """How far a subscription has come, and who is at it until when."""

    cursor: str
    holder: str = ""
    until: int = 0
    passed_over: int = 0


_place = msgspec.json.Decoder(HandlerCursor)


class EventHandlers:
    """A thread that calls the handlers of one process, from start() to stop()."""

    def __init__(self, engine: Engine, clock: Clock, who: str, subscriptions: Sequence[Subscription]) -> None:
        self._engine = engine
        self._who = who
        self._stopping = threading.Event()
        self._seats = [_HandlerRun(engine, clock, who, each, self._stopping) for each in subscriptions]
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        if self._seats:
            self._bell = self._engine.listen("events")
            for seat in self._seats:
                seat.open()
            self._thread = threading.Thread(target=self._listen, name="headrace-listener", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(5)
            self._bell.close()

    def _listen(self) -> None:
        with asyncio.Runner() as runner:  # for handlers that are coroutines, all in one loop
            while not self._stopping.is_set():
                pause, is_rung = POLL, self._bell.wait(0.0)
                for seat in self._seats:
                    try:
                        seat.advance(runner, is_rung)
                    except EngineUnavailable as error:
                        log.warning("the store is not available: %s", error)
                        pause = _OUTAGE
                    except Exception:
                        log.exception("subscription %s failed; it goes on", seat.name)
                        pause = _OUTAGE
                self._stopping.wait(pause)
            for seat in self._seats:
                seat.leave()


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
        ask = subscription.ask
        anew = None if ask is None else lambda: ask(True)
        self._follower = EventReader(engine.events, subscription.wanted, None, anew)
        self._document: Document | None = None  # as we put it there; None while the seat is not ours
        self._place = HandlerCursor("0")
        self._noted_at = 0.0
        self._seen = ""
        self._failures, self._wait_until = 0, 0.0
        self._look_at = 0.0
        self._taken_until = 0  # by another process
        self.name = subscription.name

    def open(self) -> None:
        """Begin now, if nobody has begun before."""
        now = self._engine.events.last()
        if self._subscription.everywhere:
            self._follower.cursor = now
            self._reach(now)  # where it goes on if the first event that it handles has to be tried again
        elif self._subscription.ask is None and not self._engine.document_store.get(KIND, [self.name]):
            self._engine.document_store.put(
                [Document(KIND, self.name, 0, _text(HandlerCursor(now)))]
            )  # unless somebody just did

    def advance(self, runner: asyncio.Runner, is_rung: bool) -> None:
        """Handle what has come since the last time, if somebody rang or there is something left to do."""
        if is_rung:
            self._look_at = 0.0
        if time.monotonic() >= max(self._look_at, self._wait_until):
            self._look_at = time.monotonic() + self._look(runner, is_rung)

    def _look(self, runner: asyncio.Runner, is_rung: bool) -> float:
        """Handle what has come; the seconds until there is something to do though nobody rings."""
        if self._subscription.ask is not None and self._subscription.ask(False) is None:
            return _ASK_AGAIN if is_rung else _LONGEST
        newest = self._engine.events.last()
        if newest != self._seen:
            if not self._is_ours():
                left = (self._taken_until - self._clock.now()) / 1000
                return min(max(left, 0.0), _LONGEST)
            if not self._catch_up(runner):
                return 0.0
            self._seen = newest
        if self._document is not None and self._is_noted() and self._is_ahead():
            return _NOTE_EVERY
        return _LONGEST

    def _catch_up(self, runner: asyncio.Runner) -> bool:
        """Handle all that there is; False if that was cut short.

        The follower is ahead of what was handled. Whatever cuts it short, also a store that goes away while our place
        is noted there, the next time begins behind the last event that was handled.
        """
        try:
            while not self._stopping.is_set():
                for event in self._follower.more():
                    if not self._handle(runner, event) or self._stopping.is_set():
                        return False
                self._reach(self._follower.cursor or "0")
                if self._follower.is_at_end:
                    return True
                if not self._is_noted():  # or behind a long backlog our term would be over, for each of us in turn
                    return False
            return False
        finally:
            self._follower.cursor = self._place.cursor

    def leave(self) -> None:
        """Let another process go on without waiting for our term to end."""
        if self._document is not None:
            self._place = structs.replace(self._place, holder="", until=0)
            with contextlib.suppress(EngineUnavailable):
                self._put()
                self._engine.ring("events")

    def _is_ours(self) -> bool:
        """Whether it is our turn: always where there are no turns, otherwise if nobody else is at it."""
        if self._subscription.everywhere:
            return True
        now = self._clock.now()
        if self._document is not None and now + _TERM // 2 < self._place.until <= now + _TERM:
            return True
        found = self._engine.document_store.get(KIND, [self.name])
        document = found[0] if found else Document(KIND, self.name, 0, _text(HandlerCursor(self._engine.events.last())))
        place = read_or(_place.decode, document.value, None) or HandlerCursor(self._engine.events.last())
        # Beyond a whole term it would be a clock that was wrong.
        if place.holder not in ("", self._who) and now < place.until <= now + _TERM:
            self._document, self._taken_until = None, place.until
            return False
        if self._document is None or document.version != self._document.version:
            self._document, self._place = document, place
            self._follower.cursor = place.cursor
        self._place = structs.replace(self._place, holder=self._who, until=now + _TERM)
        return self._put()

    def _put(self) -> bool:
        assert self._document is not None
        document = structs.replace(self._document, value=_text(self._place))
        self._document = (
            structs.replace(document, version=document.version + 1)
            if self._engine.document_store.put([document])
            else None
        )
        self._noted_at = time.monotonic()
        return self._document is not None

    def _reach(self, cursor: str) -> None:
        self._place = structs.replace(self._place, cursor=cursor)

    def _is_noted(self) -> bool:
        """Note how far we are, unless that was a moment ago; False if it is no longer ours to say."""
        return time.monotonic() - self._noted_at < _NOTE_EVERY or self._note()

    def _note(self) -> bool:
        """Note how far we are, if that is news; False if it is no longer ours to say."""
        if self._subscription.everywhere:
            return True
        if self._document is None:
            return False
        if not self._is_ahead():
            return True
        self._place = structs.replace(self._place, until=self._clock.now() + _TERM)
        return self._put()

    def _is_ahead(self) -> bool:
        """Whether we are farther than we have noted."""
        return self._document is not None and _place.decode(self._document.value).cursor != self._place.cursor

    def _handle(self, runner: asyncio.Runner, event: Event) -> bool:
        """Call the handler; False if it raised and is to be tried again, or if the seat is no longer ours."""
        try:
            answer = self._subscription.handler(event)
            if inspect.iscoroutine(answer):
                runner.run(answer)
        except BaseException as error:  # also SystemExit or a cancel, which would end this thread and all handlers
            if self._is_tried_again(error):
                log.warning("subscription %s: %s, at %s; trying again", self.name, why(error), event.cursor)
                return False
            self._pass_over(event, error)
        self._failures = 0
        self._reach(event.cursor)
        return self._is_noted()

    def _is_tried_again(self, error: BaseException) -> bool:
        """Whether it is, and then after a pause."""
        if self._failures >= len(_PAUSES) and not isinstance(error, self._subscription.waits_for):
            return False
        self._wait_until = time.monotonic() + _PAUSES[min(self._failures, len(_PAUSES) - 1)]
        self._failures += 1
        return True

    def _pass_over(self, event: Event, error: BaseException) -> None:
        log.error("subscription %s: event %s is passed over", self.name, event.cursor, exc_info=error)
        data = {"subscription": self.name, "cursor": event.cursor, "event": event.type, "error": why(error)[:500]}
        if event.type != "worker.error":  # or a handler of these would never come to an end
            self._engine.events.tell([EventGroup("worker.error", self._clock.now(), worker=self._who, data=[data])])
        self._place = structs.replace(self._place, passed_over=self._place.passed_over + 1)


def _text(place: HandlerCursor) -> str:
    return msgspec.json.encode(place).decode()
