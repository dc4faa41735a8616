"""The end of a worker: it settles or releases what runs, also when its program exits without stop()."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable
from typing import Protocol

from headrace.engines.protocol.core import Bell
from headrace.errors import EngineUnavailable
from headrace.runtime.worker.exchange import WorkerExchange
from headrace.runtime.worker.heartbeat import release_runs
from headrace.runtime.worker.runners.threads import Threads
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.wait_for_store import OUTAGE_FIRST

log = logging.getLogger("headrace.worker")
_JOIN_TIMEOUT = 10.0
_LAST_TRIES = 5.0  # seconds in which a worker tries to send the remaining outcomes after its deadline


class Stoppable(Protocol):
    """A worker."""

    id: str

    def request_stop(self, patience: float | None = None) -> None: ...
    def join(self, timeout: float | None = None) -> bool: ...


def stop_at_exit(worker: Stoppable) -> Callable[[], None]:
    """Release running jobs when the interpreter exits; call the returned function if the worker has ended before."""
    home = os.getpid()

    def stop() -> None:
        if os.getpid() == home:  # a forked child inherits the hook, but not the threads
            log.warning("the program exits while worker %s runs; releasing its jobs", worker.id)
            worker.request_stop(0.0)
            worker.join(_JOIN_TIMEOUT)

    atexit.register(stop)
    return lambda: atexit.unregister(stop)


def wind_down(
    worker_id: str,
    state: WorkerState,
    exchange: WorkerExchange,
    threads: Threads,
    bell: Bell,
    deadline: Callable[[], float | None],
) -> None:
    """Release unstarted jobs, let runs finish until the deadline, then release the rest."""
    while True:
        exchange.give_back()
        stop_at = deadline() or 0.0
        if time.monotonic() >= stop_at:
            release_runs(state, threads)
        pause = _settle(exchange)
        if not state.running and not state.done and not state.held():
            return
        left = stop_at - time.monotonic()
        if left < -_LAST_TRIES:
            log.error("worker %s could not store %d outcomes: the store is unavailable", worker_id, len(state.done))
            return
        bell.wait(min(pause, max(left, 0.01)))


def _settle(exchange: WorkerExchange) -> float:
    """Settle finished jobs; returns the seconds until the next try."""
    try:
        exchange.exchange(0)
        return 1.0
    except EngineUnavailable as error:
        exchange.outage_log.failed(error)
        return OUTAGE_FIRST
