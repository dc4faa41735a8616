"""Servers for what only Redis has: with settings of their own, as replicas, in a cluster, watched by a sentinel."""

from __future__ import annotations

import contextlib
import signal
from typing import Any, Self

import redis

from tests.support.daemon import Daemon, ServerFailed, free_port
from tests.support.servers import _redis_program


class OwnRedis:
    """One process of redis-server with these settings, without a password."""

    def __init__(self, *settings: str, sentinel: bool = False) -> None:
        self._daemon = Daemon("redis")
        self.folder = self._daemon.folder
        self._sentinel = sentinel
        self._settings = [setting.replace("{folder}", str(self.folder)) for setting in settings]
        if not sentinel and not any("appendonly" in setting for setting in settings):
            self._settings += ['save ""', "appendonly yes"]
        self._move_to(free_port())

    def _move_to(self, port: int) -> None:
        self.port = port
        lines = [f"port {port}", "bind 127.0.0.1", f"dir {self.folder}", *self._settings]
        (self.folder / "redis.conf").write_text("\n".join(lines) + "\n")
        self.client: Any = redis.Redis(port=port, socket_timeout=5)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> Self:
        for _ in range(5):
            try:
                self._serve()
            except ServerFailed as failure:  # a cluster has a second port, which somebody else may have
                if "in use" not in str(failure):
                    raise
                self.client.close()
                self._move_to(free_port())
            else:
                return self
        raise ServerFailed("five ports in a row were taken by others")

    def kill(self) -> None:
        self._daemon.end(signal.SIGKILL)

    def close(self) -> None:
        self.client.close()
        self._daemon.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(self, *_: object) -> None:
        self.close()

    def _serve(self) -> None:
        command = [_redis_program(), str(self.folder / "redis.conf"), *(["--sentinel"] if self._sentinel else [])]
        self._daemon.run(command, self._answers)

    def _answers(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            return bool(self.client.ping())
        return False
