"""Wake-ups from a server: one connection and one thread for all bells of a process.

A bell is an event of this process; the thread reads notifications and rings the bells they concern. Notifications sent
while disconnected are lost, so all bells are rung after a reconnect. Where a server cannot notify at all, a bell rings
by itself now and then.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import select
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable
from typing import Protocol
from weakref import WeakSet

log = logging.getLogger("headrace.bell")

EVENTS = "events"  # the topic of all events: every ring means that some event was appended
_RETRY_FIRST, _RETRY_LONGEST = 0.1, 5.0
_CHECK_INTERVAL = 10.0


class NotificationConnection(Protocol):
    """A connection that receives notifications from a server."""

    def fileno(self) -> int: ...

    def messages(self) -> Iterable[str]:
        """The notifications received so far, without waiting. Raises if the connection is lost."""
        ...

    def disconnect(self) -> None: ...


class ServerBell:
    """A listener in this process."""

    def __init__(self, server_bells: ServerBells, topic: str, queues: Collection[str], poll: float | None) -> None:
        self._server_bells = server_bells
        self._poll = poll
        self._next_look = time.monotonic() + (poll or 0.0)
        self._event = threading.Event()
        self._concerns = frozenset(f"{topic}:{queue}" for queue in queues) | {topic}
        self._all_of = None if queues else "" if topic == EVENTS else f"{topic}:"

    def concerned_by(self, message: str) -> bool:
        return message in self._concerns or (self._all_of is not None and message.startswith(self._all_of))

    def wait(self, timeout: float | None) -> bool:
        if self._poll is None:
            return self._heard(timeout)
        # Counted from the last ring, not from this call: frequent short waits ring as often.
        left = max(self._next_look - time.monotonic(), 0.0)
        rung = self._heard(left if timeout is None else min(timeout, left)) or timeout is None or left <= timeout
        if rung:
            self._next_look = time.monotonic() + self._poll
        return rung

    def _heard(self, limit: float | None) -> bool:
        rung = self._event.wait(limit)
        if rung:  # otherwise leave it set: a ring that came just now is for the next wait
            self._event.clear()
        return rung

    def ring(self) -> None:
        # Many short jobs may ring, and a check is far cheaper. A ring that was not received yet covers this one too.
        if not self._event.is_set():
            self._event.set()

    def close(self) -> None:
        self._server_bells.leave(self)


class ServerBells:
    """All bells of one engine in one process. `connect` opens the connection; with `poll` there is none."""

    def __init__(self, connect: Callable[[], NotificationConnection], poll: float | None = None) -> None:
        self._connect = connect
        self._poll = poll
        self.reset_after_fork()
        _all_bells.add(self)

    def reset_after_fork(self) -> None:
        """Start without bells, as in a forked child: the thread was not copied, and the bells are the parent's."""
        self._lock = threading.Lock()
        self._bells: list[ServerBell] = []
        self._thread: threading.Thread | None = None
        self._up = threading.Event()
        self._is_closed = False
        self._nudger: socket.socket | None = None  # wakes the thread while it waits

    def listen(self, topic: str, queues: Collection[str]) -> ServerBell:
        """A bell that misses no ring from now on."""
        # Commands are rare, and read at the next renewal anyway: no bell polls for them.
        bell = ServerBell(self, topic, queues, None if topic == "commands" else self._poll)
        with self._lock:
            if self._thread is None and self._poll is None:
                self._start_thread()
            self._bells.append(bell)
            self._is_closed = False
            up = self._up
        if self._poll is None:
            up.wait(_RETRY_LONGEST)
        return bell

    def _start_thread(self) -> None:
        self._up = threading.Event()
        nudged, nudger = socket.socketpair()
        nudger.setblocking(False)
        thread = threading.Thread(target=self._run, args=(nudged, nudger), name="headrace-bell", daemon=True)
        try:
            thread.start()
        except BaseException:
            nudged.close()
            nudger.close()
            raise
        self._thread, self._nudger = thread, nudger

    def leave(self, bell: ServerBell) -> None:
        with self._lock:
            if bell in self._bells:
                self._bells.remove(bell)
            if not self._bells:
                self._nudge()

    def ring(self, message: str) -> None:
        """Ring the bells of this process that the message concerns."""
        for bell in list(self._bells):
            if bell.concerned_by(message):
                bell.ring()

    def close(self) -> None:
        """Close the connection until the next `listen`. Present listeners get only the rings of this process."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            self._nudge()
        if thread is not None and thread is not threading.current_thread():
            thread.join(_RETRY_LONGEST)

    def _nudge(self) -> None:
        if self._nudger is not None:
            with contextlib.suppress(BlockingIOError):  # enough wake-ups are pending
                self._nudger.send(b"!")

    # -- the thread

    def _run(self, nudged: socket.socket, nudger: socket.socket) -> None:
        pause = 0.0
        with nudged, nudger:
            while self._is_wanted():
                self._up_since = math.inf
                try:
                    self._read(nudged, was_down=pause > 0)
                except Exception as error:
                    if time.monotonic() - self._up_since > _RETRY_LONGEST:
                        pause = 0.0
                    pause = min(max(pause * 2, _RETRY_FIRST), _RETRY_LONGEST)
                    log.debug("lost the notification connection: %s", error)
                    self._up.set()  # no listener has to wait for it
                    self._ring_all()  # a listener that reads the store gets the error
                    self._wait(pause * random.uniform(0.5, 1.0), nudged)

    def _read(self, nudged: socket.socket, was_down: bool) -> None:
        """Read until there is no bell any more, or the connection is lost."""
        connecting_since = time.monotonic()
        connection = self._connect()
        try:
            self._up_since = time.monotonic()
            self._up.set()
            # For missed notifications, and for listeners that gave up waiting for the connection.
            if was_down or self._up_since - connecting_since > _RETRY_LONGEST / 2:
                self._ring_all()
            # Created once: woken threads get the interpreter only when this thread waits again.
            poller = _poller(nudged, connection)
            while self._is_wanted():
                for message in connection.messages():
                    self.ring(message)
                self._wait(_CHECK_INTERVAL, nudged, poller)
        finally:
            with contextlib.suppress(Exception):
                connection.disconnect()

    def _wait(self, limit: float, nudged: socket.socket, poller: select.poll | None = None) -> None:
        ready = (poller or _poller(nudged)).poll(limit * 1000)
        # Drain the wake-up: left there, it would end every later wait.
        if any(source == nudged.fileno() for source, _ in ready):
            nudged.recv(4096)

    def _is_wanted(self) -> bool:
        with self._lock:
            # A dismissed thread must not stay for a new listener, which has a thread of its own.
            if self._thread is not threading.current_thread():
                return False
            wanted = bool(self._bells) and not self._is_closed
            if not wanted:
                self._thread = self._nudger = None
            return wanted

    def _ring_all(self) -> None:
        for bell in list(self._bells):
            bell.ring()


def _poller(*sources: socket.socket | NotificationConnection) -> select.poll:
    poller = select.poll()
    for source in sources:
        poller.register(source.fileno(), select.POLLIN)
    return poller


_all_bells: WeakSet[ServerBells] = WeakSet()


def _start_all_afresh() -> None:
    for server_bells in list(_all_bells):
        server_bells.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_all_afresh)
