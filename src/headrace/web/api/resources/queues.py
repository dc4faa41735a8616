"""Queues and tasks with their counts and rules."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from headrace.app.jobs.records import JobRecord, record_of
from headrace.app.queues.queues import QueueStats
from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.queues.rule_fields import (
    KEY_RULES,
    QUEUE_RULES,
    TASK_RULES,
    KeyRuleFields,
    QueueRuleFields,
    TaskRuleFields,
)
from headrace.core.queues.rules_text import rule_values
from headrace.core.tasks.option_fields import QueueName, TaskName, Word
from headrace.web.api.route_table import Table
from headrace.web.api.schemas import Changed, Limit, change_type, given_fields, new_type
from headrace.web.security.middleware import RequestContext

table = Table("queues", "Queues with their counts and rules.")
tasks = Table("tasks", "Known tasks and their rules.")


class QueueRecord(Struct, frozen=True, kw_only=True):
    """A queue: its jobs by state, since when its oldest pending job has been due, and its rules."""

    queue: str
    paused: bool
    scheduled: int
    waiting: int
    pending: int
    running: int
    retrying: int
    completed: int
    failed: int
    cancelled: int
    oldest_pending: datetime | None
    workers: int
    starts_left: int | None
    rules: QueueRuleFields
    keys: dict[str, KeyRuleFields] = {}


class PeekQuery(Struct, frozen=True):
    """The number of jobs to return."""

    limit: Limit = 10


class TaskRecord(TaskRuleFields, frozen=True, kw_only=True):
    """A task: whether its code is known to the web process, its rules, and its batches: their size and wait."""

    task: str
    known: bool
    paused: bool = False
    batch: int | None = None
    within: float | None = None


_CHANGES = "Rules to change: null removes a rule, omitted rules stay."
QueueChange = change_type("QueueChange", QUEUE_RULES, _CHANGES)
KeyChange = new_type("KeyChange", change_type("KeyRuleChange", KEY_RULES, _CHANGES), _CHANGES, key=Word)
TaskChange = change_type("TaskChange", TASK_RULES, _CHANGES)


# -- queues


@table.get("/queues")
def find(context: RequestContext) -> list[QueueRecord]:
    """List the queues with their counts, by name."""
    return [_record(stats) for stats in context.app.queues()]


@table.get("/queues/{queue}/peek")
def peek(context: RequestContext, queue: QueueName, query: PeekQuery) -> list[JobRecord]:
    """Return the next jobs in claim order."""
    return [record_of(job) for job in context.app.queue(queue).peek(query.limit)]


@table.get("/queues/{queue}")
def get(context: RequestContext, queue: QueueName) -> QueueRecord:
    """Return one queue with its counts and rules; an unknown queue is empty."""
    return _record(context.app.queue(queue).stats())


@table.patch("/queues/{queue}", body=QueueChange, example={"rate": "10/s", "concurrency": 5})
def configure(context: RequestContext, queue: QueueName, body: Struct) -> QueueRecord:
    """Change rules of a queue. All workers and callers apply them within a second."""
    context.app.queue(queue).configure(**given_fields(body))
    return _record(context.app.queue(queue).stats())


@table.patch("/queues/{queue}/keys", body=KeyChange, example={"key": "acme", "rate": "100/min", "concurrency": 5})
def configure_key(context: RequestContext, queue: QueueName, body: Struct) -> QueueRecord:
    """Change rules of one key of a queue, such as a tenant's, in place of those of every key."""
    given = given_fields(body)
    context.app.queue(queue).configure_key(given.pop("key"), **given)
    return _record(context.app.queue(queue).stats())


@table.post("/queues/{queue}/pause")
def pause(context: RequestContext, queue: QueueName) -> QueueRecord:
    """Pause a queue: workers start none of its jobs. Running jobs continue."""
    context.app.queue(queue).pause()
    return _record(context.app.queue(queue).stats())


@table.post("/queues/{queue}/resume")
def resume(context: RequestContext, queue: QueueName) -> QueueRecord:
    """Resume a queue."""
    context.app.queue(queue).resume()
    return _record(context.app.queue(queue).stats())


@table.post("/queues/{queue}/clear")
def clear(context: RequestContext, queue: QueueName) -> Changed:
    """Delete every unfinished job of a queue that does not run, also scheduled and retrying ones."""
    return Changed(context.app.queue(queue).clear())


@table.delete("/queues/{queue}")
def delete(context: RequestContext, queue: QueueName) -> None:
    """Delete a queue with its rules and finished jobs; 409 while it has unfinished jobs."""
    context.app.queue(queue).delete()


def _record(stats: QueueStats) -> QueueRecord:
    fields = given_fields(stats, exclude=("rules",))
    keys = {key: KeyRuleFields(**rule_values(own)) for key, own in stats.rules.keys.items()}
    return QueueRecord(rules=QueueRuleFields(**rule_values(stats.rules)), keys=keys, **fields)


# -- tasks


@tasks.get("/tasks")
def find_tasks(context: RequestContext) -> list[TaskRecord]:
    """List the tasks that the web process knows or that have rules, by name."""
    rules = context.app.task_rules()
    return [_task(context, name, rules.get(name, TaskRules())) for name in sorted({*context.app.tasks, *rules})]


@tasks.patch("/tasks/{task}", body=TaskChange, example={"rate": "100/min"})
def configure_task(context: RequestContext, task: TaskName, body: Struct) -> TaskRecord:
    """Change rules of a task. Workers apply them from their next claim on."""
    return _task(context, task, context.app.configure_task(task, **given_fields(body)))


@tasks.post("/tasks/{task}/pause")
def pause_task(context: RequestContext, task: TaskName) -> TaskRecord:
    """Pause a task: workers start none of its jobs. Other tasks continue."""
    context.app.pause_task(task)
    return _task(context, task, context.app.task_rules().get(task, TaskRules()))


@tasks.post("/tasks/{task}/resume")
def resume_task(context: RequestContext, task: TaskName) -> TaskRecord:
    """Resume a task."""
    context.app.resume_task(task)
    return _task(context, task, context.app.task_rules().get(task, TaskRules()))


def _task(context: RequestContext, name: str, rules: TaskRules) -> TaskRecord:
    known = context.app.tasks.get(name)
    limits = None if known is None else known.batch
    batch, within = (None, None) if limits is None else (limits.jobs, limits.within)
    return TaskRecord(task=name, known=known is not None, batch=batch, within=within, **rule_values(rules))
