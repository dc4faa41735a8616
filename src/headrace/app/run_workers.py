"""Runs workers in this process or in child processes until they stop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.core.settings.settings import Settings
from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.worker.supervisor import Supervisor, run_in_process
from headrace.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from headrace.runtime.spool.spool import Spool


def run_until_empty(make: Callable[[], Worker], declare: Callable[[], object]) -> int:
    """Run until no job is due."""
    with contextlib.suppress(EngineUnavailable):  # a permanent worker retries this with its schedules
        declare()
    return run_in_process(make())


def run_until_stopped(make: Callable[[], Worker], settings: Settings, engine: Engine, spool: Spool | None) -> int:
    """Run in this process, or in child processes if there are several or they are recycled."""
    if settings.processes == 1 and settings.max_jobs is None and settings.max_memory is None:
        return run_in_process(make())
    if spool is not None:
        spool.pause()  # the workers forward; its thread here would reconnect
    engine.disconnect()  # no connection may cross the fork
    return Supervisor(make, settings.processes, settings.shutdown_timeout).run()
