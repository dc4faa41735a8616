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
            # What comes with the answer, the connection has taken in by itself.
            self._early = [(heard.pid, heard.payload) for heard in self._connection.notifies(timeout=0)]
        except BaseException:
            self.hang_up()
            raise

    def fileno(self) -> int:
        return self._connection.fileno()

    def messages(self) -> Iterator[str]:
        for backend, message in self._heard():
            if not self._server.is_ours(backend):  # this process has rung its own bells already
                yield message

    def _heard(self) -> Iterator[tuple[int, str]]:
        while self._early:
            yield self._early.pop(0)
        # Not by Connection.notifies(), which knows how to wait and takes its time for that.
        line = self._connection.pgconn
        line.consume_input()
        while (heard := line.notifies()) is not None:
            yield heard.be_pid, heard.extra.decode()

    def hang_up(self) -> None:
        self._server.hang_up(self._connection)
