"""Liveness and readiness of a worker process, as supervisors of processes ask for them. Pure: no clock, no I/O.

Live: its threads make progress. If not, only a restart helps. Ready: it also takes jobs. A worker that is paused, or
whose store is not available, is live and not ready.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from headrace.core.text import short
from headrace.errors import ConfigError

LOOPBACK = "127.0.0.1"
_HINT = "use a port such as 8081, or HOST:PORT such as 0.0.0.0:8081"


class Health(msgspec.Struct, frozen=True):
    """The health of a worker process, or of all processes of a supervisor; `reason` says why it is not ready."""

    live: bool
    ready: bool = False
    reason: str = ""
    worker: str = ""


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a health file: the health, when it was written, and for how many seconds it holds."""

    live: bool
    ready: bool
    reason: str
    pid: int
    at: datetime
    fresh_for: float

    def is_fresh(self, now: datetime) -> bool:
        return abs((now - self.at).total_seconds()) <= self.fresh_for


def health_of(worker: str, state: str, overdue: dict[str, float], patience: float, *, store_answers: bool) -> Health:
    """The health of a worker in this state; `overdue` has the seconds that each of its loops is late."""
    hung = [f"its {part} has hung for {late:.0f} s" for part, late in overdue.items() if late > patience]
    if hung:
        return Health(False, reason="; ".join(hung), worker=worker)
    if state != "running":
        return Health(True, reason=f"the worker is {state}", worker=worker)
    if not store_answers:
        return Health(True, reason="the store is not available", worker=worker)
    return Health(True, True, worker=worker)


def whole(processes: Sequence[tuple[Health | None, float]], patience: float) -> Health:
    """The health of several processes: for each its last report, None before the first, and the seconds since then.

    A process that starts is not ready; one that has not reported for `patience` seconds is not live.
    """
    for number, (health, age) in enumerate(processes, 1):
        if age > patience:
            return Health(False, reason=f"process {number} has not reported for {age:.0f} s")
        if health is not None and not health.live:
            return Health(False, reason=f"process {number}: {health.reason}", worker=health.worker)
    ready = sum(health is not None and health.ready for health, _ in processes)
    if ready == len(processes):
        return Health(True, True)
    reasons = dict.fromkeys((health.reason if health else "a process starts") for health, _ in processes)
    texts = "; ".join(reason for reason in reasons if reason)
    return Health(True, reason=f"{ready} of {len(processes)} processes are ready: {texts}")


def json_line(value: Health | HealthReport) -> bytes:
    """One line of JSON."""
    return msgspec.json.encode(value) + b"\n"


def parse_address(text: int | str) -> tuple[str, int]:
    """`8081` is a port of 127.0.0.1; `HOST:PORT` names the host, too, and `[::1]:8081` one of IPv6."""
    host, separator, port = str(text).strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if separator else LOOPBACK
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise ConfigError(f"health_port: {short(text)} is not an address; {_HINT}", field="health_port", value=text)
    return host, int(port)
