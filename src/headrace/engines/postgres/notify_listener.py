"""The LISTEN connection for PostgreSQL's notifications, and the bell for events."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from psycopg import sql

from headrace.engines.postgres.connections import Connection, ConnectionPool
from headrace.engines.protocol.core import Bell
from headrace.engines.wakeup.server import EVENTS

_ECHO_FIRST, _ECHO_LONGEST, _ECHO_FACTOR = 0.15, 20.0, 1.5  # seconds


class EventsBell:
    """Rings again after each ring, at growing intervals: an event is invisible while an older transaction is open."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._pause = _ECHO_FIRST
        self._echo_at = math.inf
        self.ring, self.close = bell.ring, bell.close

    def wait(self, timeout: float | None) -> bool:
        left = max(self._echo_at - time.monotonic(), 0.0)
        limit = left if timeout is None else min(left, timeout)
        if self._bell.wait(None if limit == math.inf else limit):
            self._pause = _ECHO_FIRST
        elif time.monotonic() < self._echo_at:
            return False
        else:
            self._pause *= _ECHO_FACTOR
        self._echo_at = time.monotonic() + self._pause if self._pause <= _ECHO_LONGEST else math.inf
        return True


class NotifyConnection:
    """Receives the notifications of one channel."""

    def __init__(self, server: ConnectionPool, channel: str) -> None:
        self._server = server
        self._connection: Connection = server.connect()
        try:
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            # Notifications that came with the answer are already in the connection's buffer.
            self._early = [
                (notification.pid, notification.payload) for notification in self._connection.notifies(timeout=0)
            ]
        except BaseException:
            self.disconnect()
            raise

    def fileno(self) -> int:
        return self._connection.fileno()

    def messages(self) -> Iterator[str]:
        for backend, message in self._notifications():
            # This process has already rung its own bells, except for notifications that statements send by themselves.
            if message == EVENTS or not self._server.is_own_backend(backend):
                yield message

    def _notifications(self) -> Iterator[tuple[int, str]]:
        while self._early:
            yield self._early.pop(0)
        # Not by Connection.notifies(), which can wait and is slower for that.
        connection = self._connection.pgconn
        connection.consume_input()
        while (notification := connection.notifies()) is not None:
            yield notification.be_pid, notification.extra.decode()

    def disconnect(self) -> None:
        self._server.disconnect(self._connection)
