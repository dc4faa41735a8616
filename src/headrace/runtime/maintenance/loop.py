"""A worker's maintenance loop: a thread that runs maintenance tasks in small pieces. There is no leader.

Any worker may run a task at any time, also two at once. Between two pieces the loop rests many times as long as the
last one took, so that it costs little: this process has one interpreter lock, and the store is shared. A task that has
had more to do for a minute is behind, and gets more time, as it has to keep up with the jobs.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from headrace.errors import EngineUnavailable
from headrace.runtime.process.liveness import ThreadLiveness
from headrace.runtime.process.outage_log import OutageLog

log = logging.getLogger("headrace.maintenance")

# The rest, as a multiple of the time that a piece took: 5 % of a thread, 10 % for a task that is behind, 50 % while no
# job runs.
_REST_BESIDE_JOBS, _REST_IF_BEHIND, _REST = 19.0, 9.0, 1.0
_BEHIND_AFTER = 60.0
_SHORTEST_REST, _LONGEST_REST = 0.002, 2.0
_RECHECK = 5.0  # seconds after which the pause factor is read again
_LONGEST_PAUSE = 36_000.0  # seconds, unless the task itself asks for more: a setting may be an hour or a day
_OUTAGE_FIRST, _OUTAGE_LONGEST = 1.0, 30.0
_LONGEST_PIECE = 600.0  # seconds: no piece should take this long, not even of an archive on a slow disk


class MaintenanceTask(Protocol):
    """Work that has to be done regularly."""

    def do(self) -> float:
        """Do a small piece; returns the seconds until the next one, 0.0 if there is more to do."""
        ...


class Service(Protocol):
    """A thread that runs beside a worker."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class MaintenanceLoop:
    """Runs maintenance tasks, from start() to stop()."""

    def __init__(
        self,
        maintenance_tasks: Sequence[MaintenanceTask],
        has_jobs: Callable[[], bool] = lambda: True,
        pause_factor: Callable[[MaintenanceTask], float] = lambda maintenance_task: 1.0,
        outage_log: OutageLog | None = None,
    ) -> None:
        self._outage_log = outage_log or OutageLog()
        self._has_jobs = has_jobs
        self._pause_factor = pause_factor
        self._wanted = [
            (0.0, 0.0, maintenance_task) for maintenance_task in maintenance_tasks
        ]  # when each was done, and the pause it returned
        self._busy_since: dict[MaintenanceTask, float] = {}  # tasks that have had more to do ever since
        self._failing: dict[MaintenanceTask, float] = {}  # tasks that failed the last time, and their pause before that
        self.loop_liveness = ThreadLiveness("maintenance")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="headrace-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.loop_liveness.stop_watching()
        self._stopping.set()
        self._thread.join(5)

    # -- the thread

    def _run(self) -> None:
        while self._wanted and not self._stopping.is_set():
            next_one = min(self._wanted, key=self._due_at)
            left, maintenance_task = max(self._due_at(next_one) - time.monotonic(), 0.0), next_one[2]
            self.loop_liveness.expect_within(left + _LONGEST_PIECE)
            if self._stopping.wait(min(left, _RECHECK)):
                return
            if left > _RECHECK:
                continue  # the pause factor may have changed
            began = time.monotonic()
            pause = self._guarded(maintenance_task)
            took = time.monotonic() - began
            self._wanted.remove(next_one)
            self._wanted.append((time.monotonic(), pause, maintenance_task))
            rest = took * self._rest_after(maintenance_task, pause, began)
            self._stopping.wait(min(max(rest, _SHORTEST_REST), _LONGEST_REST))

    def _due_at(self, wanted: tuple[float, float, MaintenanceTask]) -> float:
        done_at, pause, maintenance_task = wanted
        if not pause or maintenance_task in self._failing:
            return done_at + pause
        return done_at + min(pause * self._pause_factor(maintenance_task), max(pause, _LONGEST_PAUSE))

    def _rest_after(self, maintenance_task: MaintenanceTask, pause: float, began: float) -> float:
        """How many times the duration of a piece to rest after it."""
        if pause:
            self._busy_since.pop(maintenance_task, None)
        since = began if pause else self._busy_since.setdefault(maintenance_task, began)
        if not self._has_jobs():
            return _REST
        return _REST_IF_BEHIND if began - since > _BEHIND_AFTER else _REST_BESIDE_JOBS

    def _guarded(self, maintenance_task: MaintenanceTask) -> float:
        try:
            pause = maintenance_task.do()
            self._failing.pop(maintenance_task, None)
            return pause
        except EngineUnavailable as error:
            self._outage_log.failed(error)
        except Exception:
            log.exception("a maintenance task failed; trying again later")
        pause = min(max(self._failing.get(maintenance_task, 0.0) * 2, _OUTAGE_FIRST), _OUTAGE_LONGEST)
        self._failing[maintenance_task] = pause
        return pause
