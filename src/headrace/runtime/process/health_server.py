"""A tiny HTTP server for probes: GET /live and GET /ready, each answered with 200 or 503 and a line of JSON.

It needs no thread of its own: its owner calls `poll`. A supervisor must stay single-threaded, because it forks. It does
not block on a slow client, and holds few connections for a short time.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from headrace.core.health.probes import Health, json_line
from headrace.errors import ConfigError

_MOST_CONNECTIONS: Final = 32
_LONGEST_REQUEST: Final = 8192
_PATIENCE: Final = 5.0  # seconds for a client to send its request and to take the answer


class _Connection:
    """One client: what it has sent, and what is still to be sent to it."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.received = b""
        self.answer = b""
        self.ends_at = time.monotonic() + _PATIENCE


class HealthServer:
    """Listens on an address from the start; `poll` answers the probes that have come."""

    def __init__(self, address: tuple[str, int], health: Callable[[], Health]) -> None:
        self._health = health
        self._selector = selectors.DefaultSelector()
        self._connections: dict[socket.socket, _Connection] = {}
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        try:
            self._listener = socket.create_server(address, family=family, backlog=_MOST_CONNECTIONS)
        except OSError as error:
            self._selector.close()
            where = f"{address[0]}:{address[1]}"
            reason = error.strerror or error
            raise ConfigError(f"health_port: can't listen on {where}: {reason}", field="health_port") from None
        self._listener.setblocking(False)
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)

    @property
    def port(self) -> int:
        """The port it listens on; the system has chosen it if 0 was asked for."""
        return int(self._listener.getsockname()[1])

    def poll(self, timeout: float) -> None:
        """Answer clients for up to `timeout` seconds; returns after the first ones, or when it is woken."""
        for key, _ in self._selector.select(max(timeout, 0.0)):
            if key.fileobj is self._listener:
                self._accept()
            elif key.fileobj is self._woken:
                with contextlib.suppress(OSError):
                    self._woken.recv(100)
            else:
                self._serve(key.data)
        now = time.monotonic()
        for connection in [known for known in self._connections.values() if known.ends_at < now]:
            self._drop(connection)

    def wake(self) -> None:
        """Let `poll` return; from any thread."""
        with contextlib.suppress(OSError):
            self._waker.send(b"\0")

    def close(self) -> None:
        """Stop listening. A forked child calls it, too: its parent goes on."""
        for connection in list(self._connections.values()):
            connection.link.close()
        self._connections.clear()
        self._selector.close()
        for link in (self._listener, self._woken, self._waker):
            link.close()

    def _accept(self) -> None:
        try:
            link, _ = self._listener.accept()
        except OSError:  # the client is gone already
            return
        if len(self._connections) >= _MOST_CONNECTIONS:
            link.close()
            return
        link.setblocking(False)
        connection = self._connections[link] = _Connection(link)
        self._selector.register(link, selectors.EVENT_READ, connection)

    def _serve(self, connection: _Connection) -> None:
        try:
            if not connection.answer:
                received = connection.link.recv(_LONGEST_REQUEST)
                connection.received += received
                is_whole = b"\r\n\r\n" in connection.received or len(connection.received) > _LONGEST_REQUEST
                if not received:
                    self._drop(connection)
                    return
                if not is_whole:
                    return
                connection.answer = self._answer(connection.received)
                self._selector.modify(connection.link, selectors.EVENT_WRITE, connection)
            connection.answer = connection.answer[connection.link.send(connection.answer) :]
        except BlockingIOError:
            return
        except OSError:  # the client is gone
            self._drop(connection)
            return
        if not connection.answer:
            self._drop(connection)

    def _drop(self, connection: _Connection) -> None:
        self._connections.pop(connection.link, None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.link)
        with contextlib.suppress(OSError):
            connection.link.shutdown(socket.SHUT_WR)
        connection.link.close()

    def _answer(self, request: bytes) -> bytes:
        words = request.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1"):
            return _response(HTTPStatus.BAD_REQUEST, b'{"reason":"this is not a request of HTTP/1"}\n')
        method, target = words[0], words[1].partition(b"?")[0]
        if target not in (b"/live", b"/ready"):
            return _response(HTTPStatus.NOT_FOUND, b'{"reason":"ask for /live or /ready"}\n')
        if method not in (b"GET", b"HEAD"):
            return _response(HTTPStatus.METHOD_NOT_ALLOWED, b'{"reason":"use GET"}\n', b"Allow: GET, HEAD\r\n")
        health = self._health()
        is_well = health.live if target == b"/live" else health.ready
        status = HTTPStatus.OK if is_well else HTTPStatus.SERVICE_UNAVAILABLE
        return _response(status, json_line(health), has_body=method == b"GET")


def _response(status: HTTPStatus, body: bytes, headers: bytes = b"", *, has_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nConnection: close\r\n"
    )
    return head.encode() + headers + b"\r\n" + (body if has_body else b"")
