"""Wake-ups by Redis' publish and subscribe: one connection and one thread for all bells of an engine.

A bell is an event of this process; the thread reads the channel and rings those whom a message concerns. Messages may
be lost: while the line was down everybody is rung when it is up again, and once a second a counter of commits tells
whether there was news that nobody brought.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import secrets
import threading
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engines.redis.routes import Connection
    from headrace.engines.redis.wire import Wire

log = logging.getLogger("headrace.bell")

_BACKSTOP = 1.0
_ASKED_AFTER = 30.0  # a line that is silent for so long is asked whether it is still there
_AGAIN_FIRST, _AGAIN_LONGEST = 0.1, 5.0
_ENDED_WITHIN = 5.0


class RedisBell:
    """A listener in this process."""

    def __init__(self, lookout: Lookout, topic: str, queues: Collection[str]) -> None:
        self._lookout = lookout
        self._topic = topic
        self._concerns = frozenset(f"{topic}:{queue}" for queue in queues)
        self.has_backstop = topic != "orders"  # rare, and heard at the next renewal anyway
        self.may_have_missed = False
        self.start_afresh()

    def start_afresh(self) -> None:
        self._event = threading.Event()

    def concerned_by(self, message: str) -> bool:
        if message == self._topic or message in self._concerns:
            return True
        return not self._concerns and message.startswith(f"{self._topic}:")

    def wait(self, timeout: float | None) -> bool:
        if not self._event.is_set():
            self._lookout.watch()  # a closed engine, or one in a forked child, listens again
        rung = self._event.wait(timeout)
        if rung:
            self._event.clear()
        return rung

    def ring(self) -> None:
        self._event.set()

    def close(self) -> None:
        self._lookout.leave(self)


class Lookout:
    """All bells of one engine in one process, and the thread that rings them."""

    def __init__(self, wire: Wire, tag: str) -> None:
        self._wire = wire
        self._channel, self._turn = f"{tag}:bell", f"{tag}:turn"
        self._bells: list[RedisBell] = []
        self._line: Connection | None = None
        self._start_afresh()

    def _start_afresh(self) -> None:
        """Begin without a thread, as in a forked child; the line is the parent's."""
        inherited, self._line = self._line, None
        self._pid = os.getpid()
        self._sender = f"!{secrets.token_hex(6)} "
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._up = threading.Event()
        for bell in self._bells:
            bell.start_afresh()
        if inherited is not None:
            inherited.disconnect()

    def listen(self, topic: str, queues: Collection[str]) -> RedisBell:
        """A bell that misses nothing from now on."""
        self._mind_forks()
        bell = RedisBell(self, topic, queues)
        with self._lock:
            self._bells.append(bell)
        self.watch()
        self._up.wait(self._wire.address.connect_timeout)
        bell.may_have_missed = True
        return bell

    def leave(self, bell: RedisBell) -> None:
        """The last one to leave ends the thread."""
        self._mind_forks()
        with self._lock, contextlib.suppress(ValueError):
            self._bells.remove(bell)
        if not self._bells:
            self._end()

    def ring(self, topic: str) -> None:
        """Wake every listener of the topic: those of this process at once, the others by a message."""
        self._mind_forks()
        self._ring_concerned(topic)
        self._wire.ask("PUBLISH", self._channel, self._sender + topic)

    def watch(self) -> None:
        """Make sure that the thread is there."""
        self._mind_forks()
        with self._lock:
            if self._thread is None and self._bells:
                self._stop, self._up = threading.Event(), threading.Event()
                self._thread = threading.Thread(
                    target=self._attend, args=(self._stop, self._up), name="headrace-bell", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End the thread. Whoever waits is woken; a bell that is waited at again has it started anew."""
        self._mind_forks()
        thread = self._end()
        self._ring_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_ENDED_WITHIN)

    def _end(self) -> threading.Thread | None:
        with self._lock:
            thread, self._thread = self._thread, None
            self._stop.set()
            line, self._line = self._line, None
        if line is not None:
            line.disconnect()  # which wakes the thread at its reading
        return thread

    def _mind_forks(self) -> None:
        if self._pid != os.getpid():
            self._start_afresh()

    # -- the thread

    def _attend(self, stop: threading.Event, up: threading.Event) -> None:
        pause = 0.0
        while not stop.is_set():
            try:
                line = self._call(stop)
                pause = 0.0
                self._read(line, stop, up)
            except Exception as error:
                if not stop.is_set():
                    pause = min(max(pause * 2, _AGAIN_FIRST), _AGAIN_LONGEST)
                    log.debug("no news from Redis: %s", error)
                    self._ring_all()  # whoever wakes and looks is told why
                    stop.wait(pause * random.uniform(0.5, 1.0))

    def _call(self, stop: threading.Event) -> Connection:
        """A line on which the server calls from now on."""
        line = self._wire.connect()
        try:
            with self._lock:
                if not stop.is_set():
                    self._line = line
            line.send_packed_command(line.pack_command("SUBSCRIBE", self._channel))
            line.read_response()
        except BaseException:
            line.disconnect()
            raise
        return line

    def _read(self, line: Connection, stop: threading.Event, up: threading.Event) -> None:
        """Until told to stop, or until the line is down."""
        try:
            turn = self._look()
            up.set()
            self._ring_all()  # for what came while there was no line
            heard = asked = time.monotonic()
            next_look = heard + _BACKSTOP
            while not stop.is_set():
                if line.can_read(max(next_look - time.monotonic(), 0.0)):
                    self._hear(line.read_response())
                    heard = time.monotonic()
                now = time.monotonic()
                if now >= next_look:
                    next_look = now + _BACKSTOP
                    turn, before = self._look(), turn
                    self._ring_backstop(turn != before)
                if now - max(heard, asked) >= _ASKED_AFTER:
                    if asked > heard:
                        raise TimeoutError("the line is silent")
                    line.send_packed_command(line.pack_command("PING"))
                    asked = now
        finally:
            line.disconnect()

    def _hear(self, answer: object) -> None:
        if isinstance(answer, list) and answer[0] == b"message":
            message = answer[2].decode("utf-8", "replace")
            if message.startswith(self._sender):
                return  # our own bells were rung without it
            self._ring_concerned(message.split(" ", 1)[1] if message.startswith("!") else message)

    def _look(self) -> bytes | None:
        found: bytes | None = self._wire.ask("GET", self._turn)
        return found

    def _ring_concerned(self, message: str) -> None:
        for bell in list(self._bells):
            if bell.concerned_by(message):
                bell.ring()

    def _ring_backstop(self, is_news: bool) -> None:
        for bell in list(self._bells) if is_news else ():
            if bell.has_backstop:
                bell.ring()

    def _ring_all(self) -> None:
        for bell in list(self._bells):
            if bell.may_have_missed:
                bell.ring()
