"""The same-host doorbell: wake-ups between processes that share a folder, without polling.

A listener is a Unix datagram socket in the folder, named for its topic; a ring is one empty datagram to each of
them, about 15 µs a listener. Where such sockets don't serve, and as a backstop where they do, a listener asks
`changed()` now and then. This module knows nothing of jobs or stores.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import select
import socket
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from headrace.engines.protocol import Bell

_SUFFIX = ".bell"
_LONGEST_PATH = 100  # the kernel takes 108 bytes, BSDs 104
_LONGEST_NAME = 30
_BACKSTOP = 1.0
_POLL_FASTEST, _POLL_SLOWEST = 0.005, 0.05
_TRUSTED_AFTER_NS = 50_000_000
_numbers = itertools.count()


class SocketBell:
    """A listener that other processes reach by its socket."""

    def __init__(self, address: str, changed: Callable[[], bool]) -> None:
        self._address = address
        self._changed = changed
        self._rung = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            self._socket.bind(address)
        except OSError:
            self._socket.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _BACKSTOP if deadline is None else min(_BACKSTOP, deadline - time.monotonic())
            if self._heard(max(left, 0.0)) or self._changed():
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def ring(self) -> None:
        # A datagram under way serves this ring too: whoever it wakes reads the store only afterwards.
        if not self._rung:
            self._rung = True
            with contextlib.suppress(OSError):
                self._socket.sendto(b"", socket.MSG_DONTWAIT, self._address)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._address)
        self._socket.close()

    def _heard(self, seconds: float) -> bool:
        if not self._poll.poll(math.ceil(seconds * 1000)):
            return False
        with contextlib.suppress(BlockingIOError):
            while True:
                self._socket.recv(1)
        # Only now: a ring that set the mark while its datagram was cleared above would silence all that follow.
        self._rung = False
        return True


class PollBell:
    """The portable listener: an event for its own process, a look at the store for all others."""

    def __init__(self, changed: Callable[[], bool]) -> None:
        self._changed = changed
        self._event = threading.Event()

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _POLL_FASTEST
        while True:
            left = pause if deadline is None else min(pause, deadline - time.monotonic())
            if self._event.wait(max(left, 0.0)) or self._changed():
                self._event.clear()
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False
            pause = min(pause * 1.5, _POLL_SLOWEST)

    def ring(self) -> None:
        self._event.set()

    def close(self) -> None: ...


class Belfry:
    """All bells of one folder: makes listeners and rings them by topic."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._sockets = hasattr(socket, "AF_UNIX")
        self._short: str | None = None
        self._sender: tuple[int, socket.socket] | None = None
        self._seen: tuple[int, list[str]] | None = None

    def listen(self, topic: str, changed: Callable[[], bool]) -> Bell:
        if self._sockets:
            try:
                address = os.path.join(self._reachable(), f"{topic}-{os.getpid()}-{next(_numbers)}{_SUFFIX}")
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(address)
                return SocketBell(address, changed)
            except OSError:
                self._sockets = False  # a path too long, or a filesystem without sockets
        return PollBell(changed)

    def ring(self, topic: str) -> None:
        """Wake every listener of the topic; the sockets of dead listeners are cleared away."""
        if not self._sockets:
            return
        for name in self._listeners():
            if name.startswith(f"{topic}-"):
                self._send(os.path.join(self._reachable(), name))

    def _send(self, address: str) -> None:
        try:
            self._socket().sendto(b"", socket.MSG_DONTWAIT, address)
        except (ConnectionRefusedError, FileNotFoundError):
            with contextlib.suppress(OSError):
                os.unlink(address)
        except OSError:
            pass  # its buffer is full, so it has rings enough; or it is not ours to reach: the backstop serves it

    def _listeners(self) -> list[str]:
        # The folder is listed again only when it changed. A change within the clock's grain of an earlier one
        # would not show, so a fresh time stamp is not trusted.
        try:
            stamp = os.stat(self._folder).st_mtime_ns
            if self._seen is not None and self._seen[0] == stamp:
                return self._seen[1]
            names = [name for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return []
        self._seen = (stamp, names) if time.time_ns() - stamp > _TRUSTED_AFTER_NS else None
        return names

    def _reachable(self) -> str:
        """The folder by a name short enough for a socket's address; on Linux there always is one."""
        if self._short is None and len(os.fsencode(self._folder)) <= _LONGEST_PATH - _LONGEST_NAME:
            self._short = self._folder
        elif self._short is None:
            descriptor = os.open(self._folder, os.O_RDONLY)  # the name is good as long as this is open
            weakref.finalize(self, os.close, descriptor)
            self._short = f"/proc/self/fd/{descriptor}"
        return self._short

    def _socket(self) -> socket.socket:
        if self._sender is None or self._sender[0] != os.getpid():
            self._sender = (os.getpid(), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        return self._sender[1]

    def close(self) -> None:
        if self._sender is not None and self._sender[0] == os.getpid():
            self._sender[1].close()
        self._sender = None
