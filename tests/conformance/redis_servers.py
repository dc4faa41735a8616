"""Servers for what only Redis has: with settings of their own, as replicas, in a cluster, watched by a sentinel."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Callable
from typing import Any, Self

import redis

from tests.daemon import PATIENCE, Daemon, free_port
from tests.servers import _redis_program


def until(condition: Callable[[], Any]) -> Any:
    """Wait until the condition holds; what it said."""
    deadline = time.monotonic() + PATIENCE
    while not (found := condition()):
        assert time.monotonic() < deadline, "what was awaited did not happen"
        time.sleep(0.01)
    return found


class OwnRedis:
    """One process of redis-server with these settings, without a password."""

    def __init__(self, *settings: str, sentinel: bool = False) -> None:
        self.port = free_port()
        self._daemon = Daemon("redis")
        self.folder = self._daemon.folder
        self._sentinel = sentinel
        lines = [f"port {self.port}", "bind 127.0.0.1", f"dir {self.folder}", *settings]
        if not sentinel:
            lines += ['save ""', "appendonly yes"] if not any("appendonly" in line for line in settings) else []
        (self.folder / "redis.conf").write_text("\n".join(lines).replace("{folder}", str(self.folder)) + "\n")
        self.client: Any = redis.Redis(port=self.port, socket_timeout=5)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        command = [_redis_program(), str(self.folder / "redis.conf"), *(["--sentinel"] if self._sentinel else [])]
        try:
            self._daemon.run(command, self._answers)
        except BaseException:
            self.close()
            raise
        return self

    def kill(self) -> None:
        self._daemon.end(signal.SIGKILL)

    def close(self) -> None:
        self.client.close()
        self._daemon.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(self.client.ping())
        return False
