"""Which tasks a worker knows: by the names of its app, or by an import where the name does not decide."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from headrace.core.jobs.known_tasks import KnownTasks, knows

log = logging.getLogger("headrace.worker")
_RECHECK_AFTER = 5.0  # seconds until an unknown task is looked up again


class TaskLookup:
    """`names` are the app's task names, with "jobs.*" for importable ones; `can_run` imports a task."""

    def __init__(self, names: Callable[[], Iterable[str]], can_run: Callable[[str], bool]) -> None:
        self._names = names
        self._can_run = can_run
        self._registered: set[str] = set()  # as of the last look
        self._refused: dict[str, float] = {}  # by task, when to look again
        self._logged: set[str] = set()
        self.tasks = KnownTasks(self._knows)

    def settle(self) -> None:
        """Decide the tasks that the last claim left undecided, and log the unknown ones."""
        while self.tasks.undecided:
            task = self.tasks.undecided.pop()
            if self._can_run(task):
                self.tasks.add(task)
            else:
                self._refuse(task)
        for task in self.tasks.unknown - self._logged:
            log.warning("task %r is not known to this worker; other workers may run its jobs", task)
            self._logged.add(task)

    def has_grown(self) -> bool:
        """Whether the app has since registered a task that was unknown when it was met."""
        registered = self.tasks.unknown.intersection(self._names()) if self.tasks.unknown else set[str]()
        for task in registered:
            self.tasks.add(task)
            self._refused.pop(task, None)
        return bool(registered)

    def forget(self, task: str) -> None:
        """Look the task up again at the next claim: it could not be found when it was to run."""
        self._registered.discard(task)
        self.tasks.forget(task)

    def _knows(self, task: str) -> bool | None:
        if time.monotonic() < self._refused.get(task, 0.0):
            return False
        # Most tasks were registered before the first claim. Reading all names for each would take as long as the names
        # squared, within the claim's transaction.
        if task not in self._registered:
            self._registered = set(self._names())
        if task in self._registered:
            return True
        if knows(self._registered, task):
            return None
        self._refuse(task)
        return False

    def _refuse(self, task: str) -> None:
        self._refused[task] = time.monotonic() + _RECHECK_AFTER
