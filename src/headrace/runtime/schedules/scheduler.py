"""A worker's scheduler: a thread that sleeps until the next schedule is due and fires it. There is no leader.

Each worker has one, and all wake at the same moment. The one that fired last fires at once; the others wait about a
tenth of a second longer and find nothing left to do. If the first one dies, another takes its place from the next time
on.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from headrace.engines.protocol.engine import Engine
from headrace.errors import EngineUnavailable
from headrace.runtime.process.liveness import ThreadLiveness
from headrace.runtime.process.outage_log import outage_log
from headrace.runtime.schedules.fire import fire_due

log = logging.getLogger("headrace.schedules")

_LONGEST_SLEEP = 60.0  # seconds: a clock may be set, and a ring may be lost
_DELAY_FIRST, _DELAY_LONGEST = 0.02, 0.15
_CLOSED_PAUSE = 1.0
_OUTAGE_FIRST, _OUTAGE_LONGEST = 0.1, 5.0


class Scheduler:
    """Fires schedules, from start() to stop(). `declare` stores the schedules declared in code."""

    def __init__(self, engine: Engine, declare: Callable[[], object]) -> None:
        self._engine = engine
        self._declare = declare
        self._declared = False
        self._delay = 0.0
        self._outage = 0.0
        self._outage_log = outage_log(engine)
        self.loop_liveness = ThreadLiveness("scheduler")
        self._stopping = threading.Event()
        self._bell = engine.listen("schedules")
        self._thread = threading.Thread(target=self._run, name="headrace-scheduler", daemon=True)

    def start(self) -> None:
        self._declare_once()
        self._thread.start()

    def stop(self) -> None:
        self.loop_liveness.stop_watching()
        self._stopping.set()
        self._bell.ring()
        self._thread.join(5)
        self._bell.close()

    def _declare_once(self) -> None:
        try:
            self._declare()
        except EngineUnavailable as error:
            self._outage_log.failed(error, "the schedules declared in code are stored later")
            return
        except Exception:
            log.exception("can't store a schedule declared in code; continuing with the others")
        self._declared = True

    # -- the thread

    def _run(self) -> None:
        self.loop_liveness.expect_within(0.0)
        while not self._stopping.is_set():
            pause = self._run_guarded()
            self.loop_liveness.expect_within(pause)
            if self._outage:
                self._stopping.wait(pause)  # a ring does not shorten the pause while the store is unavailable
            elif self._bell.wait(pause):
                # Every firing rings. A scheduler that is not first need not read at once; with many schedules it would
                # read all day.
                self._stopping.wait(self._delay)

    def _run_guarded(self) -> float:
        try:
            if not self._declared:
                self._declare_once()
            pause = self._run_once()
            if self._outage:
                self._outage_log.worked()
            self._outage = 0.0
            return pause
        except EngineUnavailable as error:
            self._outage_log.failed(error)
        except Exception:
            log.exception("scheduler iteration failed; continuing")
        self._outage = min(max(self._outage * 2, _OUTAGE_FIRST), _OUTAGE_LONGEST)
        return self._outage

    def _run_once(self) -> float:
        """Fire once, if anything is due; returns the seconds to sleep unless rung."""
        next_at = self._engine.schedule_store.due(0).next_at
        if next_at is None:
            return _LONGEST_SLEEP
        left = (next_at - self._engine.clock.now()) / 1000 + self._delay
        if left > 0:
            return min(left, _LONGEST_SLEEP)
        fired = fire_due(self._engine)
        if not fired.seen and self._engine.schedule_store.due(0).next_at == next_at:
            return _CLOSED_PAUSE  # a store that is being copied fires nothing
        self._delay = 0.0 if 0 < fired.won == fired.seen else self._longer_delay()
        return 0.0

    def _longer_delay(self) -> float:
        """The longer a scheduler found nothing to fire, the longer it waits; randomized, against a second collision."""
        return min(max(self._delay, _DELAY_FIRST) * random.uniform(1.0, 2.0), _DELAY_LONGEST)
