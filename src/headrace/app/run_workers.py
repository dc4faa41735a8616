"""Runs workers in this process or in child processes until they stop."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.worker.supervisor import Supervisor, run_in_process
from headrace.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from headrace.core.health.probes import Health
    from headrace.runtime.process.health_endpoints import HealthEndpoints
    from headrace.runtime.spool.spool import Spool


def run_until_empty(make: Callable[[], Worker], settings: Settings, declare: Callable[[], object]) -> int:
    """Run until no job is due."""
    with contextlib.suppress(EngineUnavailable):  # a permanent worker retries this with its schedules
        declare()
    return _run_here(make, settings)


def run_until_stopped(make: Callable[[], Worker], settings: Settings, engine: Engine, spool: Spool | None) -> int:
    """Run in this process, or in child processes if there are several or they are recycled."""
    if settings.processes == 1 and settings.max_jobs is None and settings.max_memory is None:
        return _run_here(make, settings)
    if spool is not None:
        spool.pause()  # the workers forward; its thread here would reconnect
    # No connection may cross the fork. A closed memory:// store is gone with its jobs; SQLite closes its own at a fork.
    if engine.url != "memory://":
        engine.close()
    show, patience = _endpoints(settings), 2 * settings.lease
    return Supervisor(make, settings.processes, settings.shutdown_timeout, show=show, patience=patience).run()


def _run_here(make: Callable[[], Worker], settings: Settings) -> int:
    endpoints = _endpoints(settings)
    return run_in_process(make()) if endpoints is None else run_in_process(make(), shown=endpoints)


def _endpoints(settings: Settings) -> Callable[[Callable[[], Health]], HealthEndpoints] | None:
    if settings.health_file is None and settings.health_port is None:
        return None
    # Deferred, with its imports: most workers show no health.
    from headrace.runtime.process.health_endpoints import HealthEndpoints

    return functools.partial(HealthEndpoints, settings)
