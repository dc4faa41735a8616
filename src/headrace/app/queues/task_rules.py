"""The rules of tasks."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.jobs.queue_rules import TaskRules
from headrace.core.tasks.options import check_task_name
from headrace.engines.protocol.engine import Engine


def rules_of_tasks(engine: Engine) -> dict[str, TaskRules]:
    """The rules of all tasks that have any, by name."""
    return {row.name: row.rules for row in engine.queries.tasks()}


def rule_task(engine: Engine, name: str, change: Callable[[TaskRules], TaskRules]) -> TaskRules:
    """Change the rules of a task; returns all its rules."""
    after = change(rules_of_tasks(engine).get(check_task_name(name), TaskRules()))
    engine.queries.set_task_rules(name, after)
    return after
