"""Rules that code declares with @app.task(rate=..., burst=..., concurrency=...), and their storage.

The store keeps what was declared last beside the rules of the task. A rule that still equals it belongs to the code and
follows the next declaration; any other is an operator's and stays.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import structs

from headrace.app.queues.queues import rules_of_tasks
from headrace.core.documents import Document
from headrace.core.jobs.queue_rules import TaskRules, task_rules
from headrace.core.queues.rules_text import format_rules
from headrace.engines.protocol.engine import Engine
from headrace.runtime.documents import documents_of
from headrace.runtime.jobs.task import Task

log = logging.getLogger("headrace.app")

KIND = "declared_rules"
_FIELDS = ("rate", "concurrency")


def sync_rules(engine: Engine, tasks: Mapping[str, Task[..., Any, Any]]) -> list[str]:
    """Store the rules that these tasks declare; returns the names of tasks whose rules changed.

    Every worker does this at its start. Unknown tasks do not change.
    """
    declared = {name: task.options.rules() for name, task in tasks.items()}
    known = _stored(engine)
    names = [name for name, rules in declared.items() if name in known or rules != TaskRules()]
    present = rules_of_tasks(engine) if names else {}
    changed: list[str] = []
    for name in names:
        before, document = known.get(name, (TaskRules(), Document(KIND, name, 0, "")))
        if declared[name] == before:
            continue
        rules = present.get(name, TaskRules())
        after = followed(rules, before, declared[name])
        if after != rules:
            engine.rule_store.set_rules(name, after)
            changed.append(name)
            log.info("task %s has the declared rules %s", name, format_rules(after) or "none")
        # Last, so that a killed worker leaves rules without a record, and not a record without rules. It is refused if
        # another worker was quicker, which stores the same.
        engine.document_store.put([structs.replace(document, value=_text(declared[name]))])
    return changed


def followed(rules: TaskRules, before: TaskRules, declared: TaskRules) -> TaskRules:
    """The rules after a new declaration: those that an operator has set differ from the one before, and stay."""
    follow = {name: getattr(declared, name) for name in _FIELDS if getattr(rules, name) == getattr(before, name)}
    return structs.replace(rules, **follow)


def _stored(engine: Engine) -> dict[str, tuple[TaskRules, Document]]:
    return {
        document.key: (task_rules(document.value), document) for document in documents_of(engine.document_store, KIND)
    }


def _text(rules: TaskRules) -> str:
    return msgspec.json.encode(rules).decode()
