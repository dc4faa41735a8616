"""How a worker ends: it hands in what runs, or gives it back; also when its program ends without stop()."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections.abc import Callable
from typing import Protocol

from headrace.engines.protocol.engine import Bell
from headrace.errors import EngineUnavailable
from headrace.runtime.worker.exchange import WorkerExchange
from headrace.runtime.worker.heartbeat import release_runs
from headrace.runtime.worker.state import WorkerState
from headrace.runtime.worker.threads import Threads
from headrace.runtime.worker.wait_for_store import OUTAGE_FIRST

log = logging.getLogger("headrace.worker")
_PATIENCE = 10.0
_LAST_TRIES = 5.0  # how long a worker tries to hand in what is left after its deadline


class Stoppable(Protocol):
    """A worker."""

    id: str

    def request_stop(self, patience: float | None = None) -> None: ...
    def join(self, timeout: float | None = None) -> bool: ...


def stop_at_exit(worker: Stoppable) -> Callable[[], None]:
    """Have what it runs given back when the interpreter exits; call the answer when the worker has ended before."""
    home = os.getpid()

    def stop() -> None:
        if os.getpid() == home:  # a forked child has our hook, but not our threads
            log.warning("the program ends while worker %s works; what it runs is given back", worker.id)
            worker.request_stop(0.0)
            worker.join(_PATIENCE)

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
    """Give back what was not begun, let runs finish until the deadline, release the rest."""
    while True:
        exchange.give_back()
        stop_at = deadline() or 0.0
        if time.monotonic() >= stop_at:
            release_runs(state, threads)
        pause = _settle(exchange)
        if not state.running and not state.done and not exchange.held:
            return
        left = stop_at - time.monotonic()
        if left < -_LAST_TRIES:
            log.error("worker %s could not hand in %d outcomes: the store is away", worker_id, len(state.done))
            return
        bell.wait(min(pause, max(left, 0.01)))


def _settle(exchange: WorkerExchange) -> float:
    """Settle what is finished; the seconds after which to try again."""
    try:
        exchange.exchange(0)
        return 1.0
    except EngineUnavailable as error:
        log.warning("the store is not available: %s", error)
        return OUTAGE_FIRST
