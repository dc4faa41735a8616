"""The line on which PostgreSQL calls: a connection of its own that LISTENs."""

from __future__ import annotations

from collections.abc import Iterator

from psycopg import sql

from headrace.engines.postgres.server import Connection, Server


class NotifyLine:
    """Hears the notifications of one channel."""

    def __init__(self, server: Server, channel: str) -> None:
        self._server = server
        self._connection: Connection = server.connect()
        try:
            self._connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
        except BaseException:
            self.hang_up()
            raise

    def fileno(self) -> int:
        return self._connection.fileno()

    def messages(self) -> Iterator[str]:
        for heard in self._connection.notifies(timeout=0):
            if not self._server.is_ours(heard.pid):  # this process has rung its own bells already
                yield heard.payload

    def hang_up(self) -> None:
        self._server.hang_up(self._connection)
