"""Copies queues, rules, lifecycle policies, documents and schedules.

Uses only the engine protocol. A target that was in use keeps its settings, and so do schedules that were created at the
target meanwhile. The comparison reports kept settings, because they differ from those of the source.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from headrace.core.documents import STAYS, Document
from headrace.core.jobs.queue_rules import QueueRow, QueueRules, TaskRules, queue_rules
from headrace.core.queues.rules_text import format_rules
from headrace.core.retention.lifecycle import PolicyRow
from headrace.core.schedules.records import Occurrence, ScheduleRow
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.maintenance import StoreView
from headrace.runtime.retention.policies import KIND as POLICIES
from headrace.runtime.retention.policies import policies as stored_policies
from headrace.runtime.retention.policies import replace_policies

_ALL_OCCURRENCES = 1000


class SettingDifference(Struct, frozen=True):
    """A setting of the source that is missing or different at the target. `is_kept`: the difference is intended."""

    what: Literal["queue", "task", "lifecycle", "document", "schedule"]
    id: str
    how: str
    is_kept: bool = False


def copy_settings(source: StoreView, target: Engine, *, merged: bool) -> None:
    """Copy all settings, queues first: they must exist before their jobs. `merged`: the target was in use before."""
    known = {queue.name for queue in target.queries.rules().queues} if merged else set()
    target.transfer.import_records([queue for queue in source.queries.rules().queues if queue.name not in known])
    ruled = {row.name for row in target.queries.rules().tasks} if merged else set()
    for task in source.queries.rules().tasks:
        if task.name not in ruled:
            target.rule_store.set_rules(task.name, task.rules)
    _copy_policies(source, target, merged)
    _copy_documents(source, target)
    there = {row.id: row for row in target.schedule_store.get()}
    for row in source.schedule_store.get():
        _copy_schedule(source, target, row, there.get(row.id), merged)


def _copy_policies(source: StoreView, target: Engine, merged: bool) -> None:
    known = _policies_in(target) if merged else {}
    rows = [row for key, row in _policies_in(source).items() if key not in known]
    replace_policies(target.document_store, rows)


def _copy_documents(source: StoreView, target: Engine) -> None:
    """Copy the documents that the target does not have; existing ones stay."""
    for kind, documents in _documents_of(source):
        _import_documents(target, kind, _missing_documents(target, kind, documents))


def _import_documents(target: Engine, kind: str, documents: list[Document]) -> None:
    """Insert the missing documents. Workers of the target may write too: after a conflict, insert the rest again."""
    left = len(documents) + 1
    while documents and len(documents) < left:
        if target.document_store.put([Document(kind, document.key, 0, document.value) for document in documents]):
            return
        left, documents = len(documents), _missing_documents(target, kind, documents)


def _documents_of(store: StoreView) -> Iterator[tuple[str, list[Document]]]:
    for kind in store.document_store.kinds():
        for documents in _pages_of(store, kind) if kind != POLICIES and not kind.startswith(STAYS) else ():
            yield kind, documents


def _pages_of(store: StoreView, kind: str) -> Iterator[list[Document]]:
    documents = store.document_store.get(kind)
    while documents:
        yield documents
        documents = store.document_store.get(kind, first=documents[-1].key)[1:]


def _missing_documents(target: Engine, kind: str, documents: list[Document]) -> list[Document]:
    there = {document.key for document in target.document_store.get(kind, [document.key for document in documents])}
    return [document for document in documents if document.key not in there]


def _policies_in(store: StoreView) -> dict[str, PolicyRow]:
    return {f"{row.kind} {row.name}": row for row in stored_policies(store.document_store)}


def _copy_schedule(
    source: StoreView, target: Engine, original: ScheduleRow, copy: ScheduleRow | None, merged: bool
) -> None:
    """Copy a schedule with its past runs. Neither store fires schedules while it has a status."""
    if copy is not None and copy != original:
        if _is_kept(original, copy, merged) or not target.schedule_store.delete(copy.id, copy.version):
            return
        copy = None
    if copy is None and not target.schedule_store.put(original, new=True):
        return  # one was created meanwhile
    target.transfer.import_records(_missing_occurrences(source, target, original.id)[::-1])


def _is_kept(original: ScheduleRow, copy: ScheduleRow, merged: bool) -> bool:
    """Whether the schedule at the target stays: it is another one, or was changed there after the copy."""
    if merged:
        return True
    if original.created_at == copy.created_at:
        return copy.version > original.version
    # A worker of the target may have stored the declarations of its code. The source has these too, and an operator's
    # pause of the source must not be lost.
    is_untouched = copy.updated_at == copy.created_at and not copy.fired
    return not (is_untouched and copy.declared is not None and copy.declared == original.declared)


def differing_settings(source: Engine, target: Engine, *, merged: bool) -> Iterator[SettingDifference]:
    """The settings of the source that are missing or different at the target. It only copies late documents."""
    queues = {queue.name: queue for queue in target.queries.rules().queues}
    for queue in source.queries.rules().queues:
        if how := _queue_difference(queue, queues.get(queue.name)):
            yield SettingDifference("queue", queue.name, how, is_kept=merged and queue.name in queues)
    tasks = {row.name: row.rules for row in target.queries.rules().tasks}
    for task in source.queries.rules().tasks:
        if (rules := tasks.get(task.name)) != task.rules:
            how = f"should have {format_rules(task.rules)} and has {format_rules(rules or TaskRules()) or 'no rules'}"
            yield SettingDifference("task", task.name, how, is_kept=merged and rules is not None)
    yield from _differing_policies(source, target, merged)
    yield from _differing_documents(source, target)
    schedules = {row.id: row for row in target.schedule_store.get()}
    for row in source.schedule_store.get():
        if (copy := schedules.get(row.id)) is None:
            yield SettingDifference("schedule", row.id, "is missing")
        elif copy != row:
            how = f"differs in {', '.join(_differing_fields(row, copy))}"
            yield SettingDifference("schedule", row.id, how, _is_kept(row, copy, merged))
        elif lost := len(_missing_occurrences(source, target, row.id)):
            yield SettingDifference("schedule", row.id, f"lacks {lost} of its past runs")


def _queue_difference(original: QueueRow, copy: QueueRow | None) -> str | None:
    if copy is None:
        return "is missing"
    if original.paused != copy.paused:
        return f"should be {'paused' if original.paused else 'open'} and is not"
    expected, found = _rules_of(original), _rules_of(copy)
    if expected == found:
        return None
    return f"should have {format_rules(expected) or 'no rules'} and has {format_rules(found) or 'no rules'}"


def _rules_of(queue: QueueRow) -> QueueRules:
    return queue_rules(queue.rules)


def _differing_policies(source: StoreView, target: Engine, merged: bool) -> Iterator[SettingDifference]:
    there = _policies_in(target)
    for key, original in _policies_in(source).items():
        if (copy := there.get(key)) != original:
            how = "is missing" if copy is None else f"differs in {_differing_layers(original, copy)}"
            yield SettingDifference("lifecycle", key, how, is_kept=merged and copy is not None)


def _differing_documents(source: StoreView, target: Engine) -> Iterator[SettingDifference]:
    """Copy documents that workers of the source have written since, such as metrics; report the missing ones."""
    for kind, documents in _documents_of(source):
        if late := _missing_documents(target, kind, documents):
            _import_documents(target, kind, late)
            for document in _missing_documents(target, kind, late):
                yield SettingDifference("document", f"{kind} {document.key}", "is missing")


def _differing_layers(original: PolicyRow, copy: PolicyRow) -> str:
    layers = [name for name in ("declared", "override") if getattr(original, name) != getattr(copy, name)]
    return f"its {' and '.join(layers)} policy"


def _missing_occurrences(source: StoreView, target: Engine, schedule_id: str) -> list[Occurrence]:
    """The past runs of a schedule that only the source has, newest first."""
    there = set(target.schedule_store.occurrences(schedule_id, _ALL_OCCURRENCES))
    original = source.schedule_store.occurrences(schedule_id, _ALL_OCCURRENCES)
    return [occurrence for occurrence in original if occurrence not in there]


def _differing_fields(original: ScheduleRow, copy: ScheduleRow) -> list[str]:
    return [name for name in ScheduleRow.__struct_fields__ if getattr(original, name) != getattr(copy, name)]
