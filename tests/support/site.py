"""The web surface of an app on a socket, in a thread of this process."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn

from headrace import Headrace
from headrace.web.asgi import Web, make
from tests.support.waiting import PATIENCE


class Site(NamedTuple):
    """A dashboard and a REST API that can be visited."""

    port: int
    web: Web
    server: uvicorn.Server
    thread: threading.Thread

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """As if the process had ended."""
        self.server.should_exit = True
        self.server.force_exit = True
        self.web.end()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@contextmanager
def serve(app: Headrace, **options: Any) -> Iterator[Site]:
    """Serve the app on a free port of this machine."""
    web = make(app, **{"rate": None, **options})
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(web, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="test-site", daemon=True)
        thread.start()
        site = Site(listening.getsockname()[1], web, server, thread)
        try:
            yield site
        finally:
            site.stop()
