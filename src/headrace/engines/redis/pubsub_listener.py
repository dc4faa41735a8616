"""The connection that subscribes to Redis' notifications."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.engines.redis.connections import RedisConnections


class Sender:
    """The sender name of an engine's own messages: it has already rung the bells of its process."""

    def __init__(self) -> None:
        self._name = secrets.token_hex(6)

    def signed(self, message: str) -> str:
        return f"!{self._name}-{os.getpid()} {message}"


class SubscribedConnection:
    """Receives the messages of one channel, except those of its own engine."""

    def __init__(self, connections: RedisConnections, channel: str, own: Sender) -> None:
        self._own = own
        self._connection = connections.connect()
        try:
            self._connection.send_packed_command(self._connection.pack_command("SUBSCRIBE", channel))
            self._connection.read_response()
        except BaseException:
            self.disconnect()
            raise

    def fileno(self) -> int:
        return int(self._connection._sock.fileno())

    def messages(self) -> Iterator[str]:
        own = self._own.signed("")
        while self._connection.can_read(0):
            answer = self._connection.read_response()
            if isinstance(answer, list) and answer[0] == b"message":
                message = answer[2].decode("utf-8", "replace")
                if not message.startswith(own):
                    yield message.split(" ", 1)[1] if message.startswith("!") else message

    def disconnect(self) -> None:
        self._connection.disconnect()
