"""Where a worker process shows its health: a file that it rewrites, and a port that it answers on.

The file is rewritten only while the process is live, so its age is the sign. It is replaced atomically, and removed
when the process stops in order.
"""

from __future__ import annotations

import contextlib
import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

import msgspec

from headrace.core.health.probes import Health, HealthReport, json_line, parse_address
from headrace.core.settings.settings import Settings
from headrace.errors import ConfigError
from headrace.runtime.process.health_server import HealthServer

log = logging.getLogger("headrace.worker")
_LONGEST_INTERVAL = 5.0
_UNREADY_INTERVAL = 1.0  # so that the file soon says that the process has become ready
_FRESH_FOR = 4  # intervals


class HealthFile:
    """A file with the health of this process."""

    def __init__(self, path: Path, interval: float) -> None:
        self._path = path
        self._interval = interval
        self._pid = os.getpid()
        self._failed = False

    def write(self, health: Health) -> None:
        """Replace the file if the process is live. A full disk must not end a worker: it is logged once."""
        if not health.live:
            return
        try:
            self._replace(json_line(self._report(health)))
            self._failed = False
        except OSError as error:
            if not self._failed:
                log.error("health_file: %s can't be written: %s", self._path, error.strerror or error)
            self._failed = True

    def create(self, health: Health) -> None:
        """Write it for the first time; ConfigError if that is not possible."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._replace(json_line(self._report(health)))
        except OSError as error:
            text = f"health_file: {self._path} can't be written: {error.strerror or error}"
            raise ConfigError(text, field="health_file") from None

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _report(self, health: Health) -> HealthReport:
        return HealthReport(
            live=health.live,
            ready=health.ready,
            reason=health.reason,
            pid=self._pid,
            at=datetime.now(UTC),
            fresh_for=_FRESH_FOR * self._interval,
        )

    def _replace(self, text: bytes) -> None:
        handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text)
            os.chmod(temporary, 0o644)  # a probe may run as another user
            os.replace(temporary, self._path)
        except BaseException:
            os.unlink(temporary)
            raise


def read_report(path: Path) -> HealthReport | None:
    """The last report in a health file; None if there is no file. ConfigError if it is no health file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=HealthReport)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"health_file: {path} is not a readable health file: {error}", field="health_file") from None


class HealthEndpoints:
    """The file and the port of one process. Its owner calls `poll`, or enters it, and a thread does."""

    def __init__(self, settings: Settings, health: Callable[[], Health]) -> None:
        self._health = health
        self.interval = min(settings.beat, _LONGEST_INTERVAL)
        self._write_at = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-health", daemon=True)
        self._server = (
            None if settings.health_port is None else HealthServer(parse_address(settings.health_port), health)
        )
        self._file = None if settings.health_file is None else HealthFile(Path(settings.health_file), self.interval)
        try:
            if self._file is not None:
                self._file.create(health())
        except BaseException:
            self.abandon()
            raise
        if self._server is not None:
            log.info("health: /live and /ready on port %d", self._server.port)

    def poll(self, timeout: float) -> None:
        """Show the health for up to `timeout` seconds."""
        now = time.monotonic()
        if self._file is not None and now >= self._write_at:
            health = self._health()
            self._file.write(health)
            self._write_at = now + (self.interval if health.ready else min(self.interval, _UNREADY_INTERVAL))
        if self._server is not None:
            self._server.poll(timeout)
        elif timeout > 0:
            self._stopping.wait(timeout)

    def close(self) -> None:
        """Stop, and remove the file."""
        self.abandon()
        if self._file is not None:
            self._file.remove()

    def abandon(self) -> None:
        """Close the port and leave the file alone: in a forked child, whose parent goes on."""
        if self._server is not None:
            self._server.close()

    def __enter__(self) -> HealthEndpoints:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stopping.set()
        if self._server is not None:
            self._server.wake()
        self._thread.join(5)
        self.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self.poll(min(self.interval, _UNREADY_INTERVAL) if self._file is not None else self.interval)
            except Exception:
                log.exception("the health could not be shown; continuing")
                self._stopping.wait(1.0)
