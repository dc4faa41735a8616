"""A wire between a client and a server that a test can cut, block or take away.

One thread with an event loop carries everything; it belongs to the test that made it. Must not know what is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Any, Self, cast
from urllib.parse import urlsplit

from tests.support.daemon import free_port
from tests.support.waiting import PATIENCE

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing resets the connection and throws away what was not sent


class Proxy:
    """Listens at a loopback port and forwards to a server's."""

    def __init__(self, server_port: int) -> None:
        self.port = free_port()
        self.connections = 0  # how many were accepted, all in all
        self._server_port = server_port
        self._ends: set[_End] = set()
        self._joining: set[asyncio.Task[None]] = set()
        self._listener: socket.socket | None = None
        self._flows = True
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self.accept_again()

    def through(self, url: str) -> str:
        """The URL of the same store by way of this proxy."""
        parts = urlsplit(url)
        login, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{at}127.0.0.1:{self.port}").geturl()

    @property
    def open_connections(self) -> int:
        return sum(end.is_clients for end in tuple(self._ends))

    def cut(self) -> None:
        """Reset every connection, now; new ones are welcome."""
        self._do(self._cut())

    def pause(self) -> None:
        """A black hole: nothing that arrives from now on is forwarded, and nothing is refused."""
        self._do(self._let_flow(False))

    def resume(self) -> None:
        """Forward again, what has come in meanwhile first."""
        self._do(self._let_flow(True))

    def refuse(self) -> None:
        """Refuse new connections, as if nobody listened; open ones go on."""
        self._do(self._refuse())

    def accept_again(self) -> None:
        self._do(self._accept())

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._do(self._refuse())
        self._do(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _do(self, what: Any) -> None:
        """Let the loop's thread do it, and wait until it is done."""
        asyncio.run_coroutine_threadsafe(what, self._loop).result(PATIENCE)

    async def _accept(self) -> None:
        # Not an asyncio.Server: one that is closed while it accepts leaves a socket behind.
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._welcome, self._listener)

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _let_flow(self, flows: bool) -> None:
        self._flows = flows
        for end in self._ends:
            end.read_or_not()

    async def _cut(self) -> None:
        await asyncio.gather(*self._joining)
        doomed = set(self._ends)
        for end in doomed:
            end.reset()
        while doomed & self._ends:
            await asyncio.sleep(0)

    def _welcome(self, listener: socket.socket) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):  # it did not wait for us
            wire, _ = listener.accept()
            self.connections += 1
            task = self._loop.create_task(self._join(wire))
            self._joining.add(task)
            task.add_done_callback(self._joining.discard)

    async def _join(self, wire: socket.socket) -> None:
        client = _End(self._ends, self._may_flow, is_clients=True)
        server = _End(self._ends, self._may_flow, is_clients=False)
        await self._loop.connect_accepted_socket(lambda: client, wire)
        try:
            async with asyncio.timeout(5):
                await self._loop.create_connection(lambda: server, "127.0.0.1", self._server_port)
        except OSError:
            client.reset()
        else:
            client.join(server)

    def _may_flow(self) -> bool:
        return self._flows


class _End(asyncio.Protocol):
    """One of the two connections that are joined. It reads only while the other takes what it reads."""

    def __init__(self, ends: set[_End], may_flow: Callable[[], bool], *, is_clients: bool) -> None:
        self.is_clients = is_clients
        self.other: _End | None = None
        self._ends = ends
        self._may_flow = may_flow
        self._is_full = False
        self._early = b""  # what came before the other was there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ends.add(self)

    def join(self, server: _End) -> None:
        self.other, server.other = server, self
        if self not in self._ends:  # the client did not wait for it
            server.reset()
        self.read_or_not()
        server.read_or_not()

    def read_or_not(self) -> None:
        if self.other is None:
            return
        if self._may_flow() and not self.other._is_full:
            self.other._transport.write(self._early)
            self._early = b""
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        if self.other is None:
            self._early += data
        else:
            self.other._transport.write(data)

    def pause_writing(self) -> None:
        self._is_full = True
        self._tell_the_other()

    def resume_writing(self) -> None:
        self._is_full = False
        self._tell_the_other()

    def _tell_the_other(self) -> None:
        if self.other is not None:
            self.other.read_or_not()

    def reset(self) -> None:
        wire: socket.socket = self._transport.get_extra_info("socket")
        with contextlib.suppress(OSError):  # the other side was quicker
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def connection_lost(self, _: Exception | None) -> None:
        self._ends.discard(self)
        if self.other is not None:
            self.other._transport.close()  # which first sends what is left
