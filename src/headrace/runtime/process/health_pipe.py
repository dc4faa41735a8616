"""How a worker process tells its supervisor its health: a pipe, one line of JSON a second.

The supervisor never waits for a line, and a worker never waits for its supervisor: a line that does not fit is dropped.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from types import TracebackType

import msgspec

from headrace.core.health.probes import Health, json_line

_EVERY = 1.0
_LONGEST = 65_536
_decode = msgspec.json.Decoder(Health).decode


class HealthPipe:
    """A pipe from one worker process to its supervisor. Both ends are open until a process closes the other's."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        for end in (self._reader, self._writer):
            os.set_blocking(end, False)
        self._last: Health | None = None
        self._heard_at = time.monotonic()

    def close(self) -> None:
        """Close both ends, in the process that no longer needs it."""
        for name in ("_reader", "_writer"):
            if (end := getattr(self, name)) >= 0:
                setattr(self, name, -1)
                os.close(end)

    # -- in the supervisor

    def started(self) -> None:
        """The process has been forked: its end is its own."""
        os.close(self._writer)
        self._writer = -1

    def last(self) -> tuple[Health | None, float]:
        """The last report, None before the first one, and the seconds since then."""
        received = b""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self._reader, _LONGEST):
                received = (received + chunk)[-_LONGEST:]
        lines = [line for line in received.split(b"\n") if line]
        if lines:
            with contextlib.suppress(msgspec.DecodeError):
                self._last = _decode(lines[-1])
            self._heard_at = time.monotonic()
        return self._last, time.monotonic() - self._heard_at

    # -- in the worker process

    def forked(self) -> None:
        """This is the forked process: the other end is the supervisor's."""
        os.close(self._reader)
        self._reader = -1

    def reporting(self, health: Callable[[], Health]) -> _Reporter:
        """A context in which a thread reports this health."""
        return _Reporter(self._writer, health)


class _Reporter:
    def __init__(self, writer: int, health: Callable[[], Health]) -> None:
        self._writer = writer
        self._health = health
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-health", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        self._thread.join(5)

    def _run(self) -> None:
        while True:
            with contextlib.suppress(OSError):  # the pipe is full, or the supervisor is gone
                os.write(self._writer, json_line(self._health()))
            if self._stopping.wait(_EVERY):
                return
