"""The list of tasks, with circuit breakers that failed; one task: its numbers, failures, jobs, rules and actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.app.metrics.task_stats import TaskStats
from headrace.core.dead_letters.records import DeadLetterFilter
from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.jobs.states import State
from headrace.core.queues.rule_fields import TASK_RULES
from headrace.core.queues.rules_text import format_rules, rule_values
from headrace.core.tasks.batches import batch_text
from headrace.core.tasks.options import check_task_name
from headrace.web.pages.forms import form_fields, given_rules
from headrace.web.pages.job_view import summaries
from headrace.web.pages.request import PageRequest
from headrace.web.pages.view import Action, ActionResult, View
from headrace.web.pages.views.breakers import failed_breakers
from headrace.web.pages.views.queues import top_failures

_MAX_JOBS = 10
_SAMPLE = 100  # latest failures, grouped for the top ones


def show(request: PageRequest) -> Mapping[str, Any]:
    found = request.page_cache.task_stats()
    text = (request.query("q") or "").casefold()
    return {
        "tasks": None if found is None else [stats for stats in found if text in stats.task.casefold()],
        "all": 0 if found is None else len(found),
        "limits_of": limits_of,
        "batch_text": batch_text,
        "breakers": failed_breakers(request),
        "topics": ("job", "worker"),
    }


def limits_of(rules: TaskRules) -> str:
    """The rules of a task without its pause, which has a tag of its own."""
    return format_rules(TaskRules(rate=rules.rate, concurrency=rules.concurrency, strategy=rules.strategy))


def show_one(request: PageRequest) -> Mapping[str, Any]:
    name = check_task_name(request.path_param("task"))
    found = request.page_cache.task_stats()
    rules = request.app.task_rules().get(name, TaskRules())
    known = next((stats for stats in found or () if stats.task == name), TaskStats(task=name, known=False))
    failed = request.app.engine.dead_letters.find(DeadLetterFilter(statuses=("pending",), task=name), _SAMPLE)
    return {
        "stats": known,
        "batch_text": batch_text,
        "is_counted": found is not None,
        "paused": rules.paused,
        "rules": form_fields(TASK_RULES, rule_values(rules)),
        "failing": top_failures(failed),
        "sampled": len(failed),
        "running": summaries(request.app.jobs.find(task=name, state=State.RUNNING, limit=_MAX_JOBS), request.app),
        "workers": [worker for worker in request.page_cache.workers() if name in worker.tasks],
        "topics": ("job", "worker"),
    }


# -- actions


def _pause(request: PageRequest) -> ActionResult:
    name = request.path_param("task")
    request.app.pause_task(name)
    return ActionResult(f"Task {name} is paused; running jobs continue.", target=name)


def _resume(request: PageRequest) -> ActionResult:
    name = request.path_param("task")
    request.app.resume_task(name)
    return ActionResult(f"Task {name} is open again.", target=name)


def _configure(request: PageRequest) -> ActionResult:
    name = request.path_param("task")
    request.app.configure_task(name, **given_rules(request, TASK_RULES))
    return ActionResult(f"The rules of task {name} apply from the next claim of each worker on.", target=name)


VIEWS = [
    View(path="/tasks", template="tasks/tasks.html", show=show, label="Tasks", icon="tasks", key="t"),
    View(path="/tasks/{task:path}", template="tasks/task.html", show=show_one),
]
ACTIONS = [
    Action(path="/tasks/{task:path}/pause", name="task.pause", run=_pause),
    Action(path="/tasks/{task:path}/resume", name="task.resume", run=_resume),
    Action(path="/tasks/{task:path}/configure", name="task.configure", run=_configure),
]
