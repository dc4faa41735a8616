"""The methods of an app that read and change the rules of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from msgspec import structs

from headrace.app.queues.queues import change_task_rules, rules_of_tasks
from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.queues.rules_text import changed
from headrace.core.tasks.options import check_name
from headrace.engines.protocol.engine import Engine
from headrace.runtime.jobs.async_twin import twin

if TYPE_CHECKING:
    from headrace.runtime.context.breaker import Breaker


class TaskRuleMethods:
    """Rules are in the store: they hold for all workers, from their next claim on."""

    engine: Engine

    def task_rules(self) -> dict[str, TaskRules]:
        """The rules of all tasks that have any, by name."""
        return rules_of_tasks(self.engine)

    def configure_task(self, name: str, /, **rules: Any) -> TaskRules:
        """Change rules of a task; returns all its rules. Workers apply them from their next claim on.

        `rate` limits starts ("10/s"), `burst` the starts at once after a pause, `concurrency` the running jobs over all
        queues and workers. `strategy` is the order among its own jobs, which overrides the queue's: priority, fifo,
        lifo, weighted_random or fresh_first. None removes a rule.
        """
        return change_task_rules(self.engine, name, lambda before: changed(before, rules))

    def pause_task(self, name: str) -> None:
        """Pause a task: workers start none of its jobs. Running jobs and other tasks continue."""
        change_task_rules(self.engine, name, lambda before: structs.replace(before, paused=True))

    def resume_task(self, name: str) -> None:
        """Resume a task."""
        change_task_rules(self.engine, name, lambda before: structs.replace(before, paused=False))

    def breaker(
        self,
        name: str,
        *,
        failures: int = 5,
        open_for: float | timedelta = 30,
        on: type[Exception] | Sequence[type[Exception]] = Exception,
    ) -> Breaker:
        """A circuit breaker around an external service: `with app.breaker("stripe"): ...`, or `async with`.

        After `failures` in a row, counted over all processes, it is open for `open_for` seconds: `with` raises
        BreakerOpen, which snoozes the job. Then one call tries; its success closes the breaker. Exceptions other than
        those in `on` are answers of the service.
        """
        from headrace.core.tasks.breaker import checked_breaker
        from headrace.runtime.context.breaker import Breaker  # deferred: many programs use none

        return Breaker(lambda: self.engine, check_name("breaker", name), *checked_breaker(failures, open_for, on))

    atask_rules = twin(task_rules)
    aconfigure_task = twin(configure_task)
    apause_task = twin(pause_task)
    aresume_task = twin(resume_task)
