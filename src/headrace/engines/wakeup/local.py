"""Wake-ups between processes of one host that share a folder, without polling.

A listener is a Unix datagram socket in the folder, named after its topic; a ring is one empty datagram to each of
them, about 15 µs a listener. Where such sockets don't work, and as a backstop where they do, a listener calls
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
from collections.abc import Callable, Iterable
from pathlib import Path

from headrace.engines.protocol.core import Bell

_SUFFIX = ".bell"
_LONGEST_PATH = 100  # the kernel takes 108 bytes, BSDs 104
_LONGEST_NAME = 30
_BACKSTOP = 1.0
_POLL_FASTEST, _POLL_SLOWEST = 0.005, 0.05
_TRUSTED_AFTER_NS = 50_000_000
_numbers = itertools.count()


class SocketBell:
    """A listener that other processes reach by its socket."""

    def __init__(self, find_address: Callable[[], str], changed: Callable[[], bool]) -> None:
        self._find_address = find_address
        self._changed = changed
        self._address, self._socket = _bound_at(find_address())
        # Rings from its own process use a socket pair, which no cleanup of the folder can remove.
        self._rung = False
        self._own, self._own_sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._own.setblocking(False)
        self._own_sender.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._poll.register(self._own, select.POLLIN)

    def wait(self, timeout: float | None) -> bool:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = _BACKSTOP if deadline is None else min(_BACKSTOP, deadline - time.monotonic())
            if self._drain(max(left, 0.0)) or self._changed() or self._rebind():
                return True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def ring(self) -> None:
        # A datagram that is still unread covers this ring too: its reader reads the store only afterwards.
        if not self._rung:
            self._rung = True
            try:
                self._own_sender.send(b"")
            except OSError:
                self._rung = False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._address)
        for end in (self._socket, self._own, self._own_sender):
            end.close()

    def _drain(self, seconds: float) -> bool:
        if not self._poll.poll(math.ceil(seconds * 1000)):
            return False
        for end in (self._socket, self._own):
            with contextlib.suppress(BlockingIOError):
                while True:
                    end.recv(1)
        # Only now: a ring that set the flag before its datagram was drained above would silence all later rings.
        self._rung = False
        return True

    def _rebind(self) -> bool:
        """Whether the socket was missing from its folder and is bound again: rings may have been lost meanwhile."""
        if os.path.lexists(self._address):
            return False
        try:
            address, fresh = _bound_at(self._find_address())
        except OSError:
            return False  # the backstop works until the folder can be used again
        self._poll.unregister(self._socket)
        self._socket.close()
        self._address, self._socket = address, fresh
        self._poll.register(fresh, select.POLLIN)
        return True


def _bound_at(address: str) -> tuple[str, socket.socket]:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(address)
    new_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    new_socket.setblocking(False)
    try:
        new_socket.bind(address)
    except OSError:
        new_socket.close()
        raise
    return address, new_socket


class PollBell:
    """The portable listener: an event for its own process, polling the store for all others."""

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


class LocalBells:
    """All bells of one folder: creates listeners and rings them by topic."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._sockets = hasattr(socket, "AF_UNIX")
        self._folder_fd: int | None = None
        self._senders: dict[int, socket.socket] = {}  # by process: a fork inherits those of its parent
        self._seen: tuple[int, list[str]] | None = None

    def listen(
        self, topic: str, changed: Callable[[], bool], changed_unheard: Callable[[], bool] | None = None
    ) -> Bell:
        """A listener. With sockets it polls `changed_unheard` instead, which need not report changes that have rung."""
        if self._sockets:
            name = f"{topic}-{os.getpid()}-{next(_numbers)}{_SUFFIX}"
            try:
                return SocketBell(lambda: self._address_for(name), changed_unheard or changed)
            except OSError:
                self._sockets = False  # a path too long, or a filesystem without sockets
        return PollBell(changed)

    def ring(self, topic: str) -> None:
        """Wake every listener of the topic; the sockets of dead listeners are removed."""
        if not self._sockets:
            return
        with contextlib.suppress(OSError):  # a missing folder has no listeners; they come back by themselves
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
            pass  # its buffer is full, so it has enough rings; or we may not reach it: the backstop serves it

    def _listeners(self) -> list[str]:
        # The folder is listed again only when it changed. A second change within the clock's resolution would not
        # show, so a fresh time stamp is not trusted.
        stamp = os.stat(self._folder).st_mtime_ns
        if self._seen is not None and self._seen[0] == stamp:
            return self._seen[1]
        names = [name for name in os.listdir(self._folder) if name.endswith(_SUFFIX)]
        self._seen = (stamp, names) if time.time_ns() - stamp > _TRUSTED_AFTER_NS else None
        return names

    def _address_for(self, name: str) -> str:
        """The address to bind a socket of this name; creates the folder again if it was removed."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._folder, 0o700)
        return os.path.join(self._reachable(), name)

    def _reachable(self) -> str:
        """The folder by a path short enough for a socket's address; on Linux there always is one."""
        if len(os.fsencode(self._folder)) <= _LONGEST_PATH - _LONGEST_NAME:
            return self._folder
        if self._folder_fd is None or not os.path.samestat(os.fstat(self._folder_fd), os.stat(self._folder)):
            self._folder_fd = os.open(self._folder, os.O_RDONLY)  # the path is valid as long as this is open
            weakref.finalize(self, os.close, self._folder_fd)
        return f"/proc/self/fd/{self._folder_fd}"

    def _socket(self) -> socket.socket:
        own_pid = os.getpid()
        sender = self._senders.get(own_pid)
        if sender is None:
            self._drop(pid for pid in list(self._senders) if pid != own_pid)
            new_socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            sender = self._senders.setdefault(own_pid, new_socket)
            if sender is not new_socket:  # another thread was faster
                new_socket.close()
        return sender

    def close(self) -> None:
        self._drop(list(self._senders))

    def _drop(self, pids: Iterable[int]) -> None:
        for pid in pids:
            if sender := self._senders.pop(pid, None):
                sender.close()
