"""The web surface on a real port, for what can't be seen in one process: streams, other languages, slow listeners."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from typing import Any

import uvicorn

from headrace import Headrace
from headrace.web.asgi import make
from tests.support.waiting import PATIENCE


@contextmanager
def served(app: Headrace, **options: Any) -> Iterator[int]:
    """Serve the app on a free port of this machine; the port."""
    web = make(app, rate=None, **options)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(web, log_config=None, lifespan="off", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = True
        web.end()
        thread.join(PATIENCE)
        listening.close()


class Listening:
    """One who listens to server-sent events."""

    def __init__(self, port: int, path: str = "/api/v1/events", **headers: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", path, headers=headers)
        self.response: HTTPResponse = self._connection.getresponse()

    def frame(self) -> dict[str, str]:
        """The next frame that is no comment; {} at the end of the stream."""
        fields: dict[str, str] = {}
        while line := self.response.readline():
            text = line.decode().rstrip("\n")
            if not text and "data" in fields:
                return fields
            name, _, value = text.partition(": ")
            fields[name] = value
        return {}

    def event(self) -> Any:
        """The data of the next frame."""
        return json.loads(self.frame()["data"])

    def close(self) -> None:
        self.response.close()
        self._connection.close()

    def __enter__(self) -> Listening:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
