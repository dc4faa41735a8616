"""The web surface of an app on a socket, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn

from headrace import Headrace


class Site(NamedTuple):
    url: str
    server: uvicorn.Server
    thread: threading.Thread

    def stop(self) -> None:
        """As if the process had ended."""
        self.server.should_exit = True
        self.server.force_exit = True
        self.thread.join(10)
        assert not self.thread.is_alive()


@contextmanager
def serve(app: Headrace, **options: Any) -> Iterator[Site]:
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()
    config = uvicorn.Config(
        app.asgi(**options), log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="test-site")
    thread.start()
    site = Site(f"http://127.0.0.1:{listening.getsockname()[1]}", server, thread)
    try:
        yield site
    finally:
        site.stop()
        listening.close()
