"""Copies queues, rules, lifecycle terms, documents and schedules.

Knows stores by the engine seam alone. A store that was in use before keeps what it has, and so does everybody who made
a schedule at the target in the meantime; what is kept is told, for it is not what the source has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from headrace.core.documents import STAYS, Document
from headrace.core.jobs.queue_rules import QueueRules, TaskRules, queue_rules
from headrace.core.jobs.records import QueueRow
from headrace.core.queues.rules_text import in_words
from headrace.core.retention.lifecycle import PolicyRow
from headrace.core.schedules.records import Occurrence, ScheduleRow
from headrace.engines.protocol.engine import Engine
from headrace.engines.protocol.maintenance import StoreView

_ALL_OCCURRENCES = 1000


class SettingDifference(Struct, frozen=True):
    """A setting that is not at the target as it is at the source. `is_kept` tells that this is as it should be."""

    what: Literal["queue", "task", "lifecycle", "document", "schedule"]
    id: str
    how: str
    is_kept: bool = False


def carry_settings(source: StoreView, target: Engine, *, merged: bool) -> None:
    """Queues first: they are there before any job is. `merged` tells that the target was in use before."""
    known = {queue.name for queue in target.queries.queues()} if merged else set()
    target.transfer.import_queues([queue for queue in source.queries.queues() if queue.name not in known])
    ruled = {row.name for row in target.queries.tasks()} if merged else set()
    for task in source.queries.tasks():
        if task.name not in ruled:
            target.queries.set_task_rules(task.name, task.rules)
    _carry_terms(source, target, merged)
    _copy_documents(source, target)
    there = {row.id: row for row in target.schedule_store.all()}
    for row in source.schedule_store.all():
        _carry_schedule(source, target, row, there.get(row.id), merged)


def _carry_terms(source: StoreView, target: Engine, merged: bool) -> None:
    known = _terms_in(target) if merged else {}
    rows = [row for key, row in _terms_in(source).items() if key not in known]
    target.staleness_store.declare_policy(rows)
    for row in rows:
        target.staleness_store.order_policy(row.kind, row.name, row.ordered)


def _copy_documents(source: StoreView, target: Engine) -> None:
    """Those that are not at the target yet; what somebody put there meanwhile stays."""
    for kind, documents in _documents_of(source):
        _import_documents(target, kind, _missing_documents(target, kind, documents))


def _import_documents(target: Engine, kind: str, documents: list[Document]) -> None:
    """All that are not there. Workers that came early write there as well: if one was faster, none was taken."""
    left = len(documents) + 1
    while documents and len(documents) < left:
        if target.document_store.put([Document(kind, document.key, 0, document.value) for document in documents]):
            return
        left, documents = len(documents), _missing_documents(target, kind, documents)


def _documents_of(store: StoreView) -> Iterator[tuple[str, list[Document]]]:
    for kind in store.document_store.kinds():
        for documents in _pages_of(store, kind) if not kind.startswith(STAYS) else ():
            yield kind, documents


def _pages_of(store: StoreView, kind: str) -> Iterator[list[Document]]:
    documents = store.document_store.browse(kind)
    while documents:
        yield documents
        documents = store.document_store.browse(kind, documents[-1].key)[1:]


def _missing_documents(target: Engine, kind: str, documents: list[Document]) -> list[Document]:
    there = {document.key for document in target.document_store.get(kind, [document.key for document in documents])}
    return [document for document in documents if document.key not in there]


def _terms_in(store: StoreView) -> dict[str, PolicyRow]:
    return {f"{row.kind} {row.name}": row for row in store.staleness_store.policies()}


def _carry_schedule(
    source: StoreView, target: Engine, ours: ScheduleRow, theirs: ScheduleRow | None, merged: bool
) -> None:
    """With what became of its times. Neither store fires while its notice hangs."""
    if theirs is not None and theirs != ours:
        if _is_kept(ours, theirs, merged) or not target.schedule_store.delete(theirs.id, theirs.version):
            return
        theirs = None
    if theirs is None and not target.schedule_store.put(ours, new=True):
        return  # somebody made one just now
    target.schedule_store.record(_missing_occurrences(source, target, ours.id)[::-1])


def _is_kept(ours: ScheduleRow, theirs: ScheduleRow, merged: bool) -> bool:
    """Whether the schedule at the target stays, which is another one or was changed there since it was carried."""
    if merged:
        return True
    if ours.created_at == theirs.created_at:
        return theirs.version > ours.version
    # A worker that came early stores what its code declares. That is no more than the source knows: an operator's
    # pause must not be lost to it.
    is_untouched = theirs.updated_at == theirs.created_at and not theirs.fired
    return not (is_untouched and theirs.declared is not None and theirs.declared == ours.declared)


def unlike_settings(source: Engine, target: Engine, *, merged: bool) -> Iterator[SettingDifference]:
    """Everything that is set at the source and not, or otherwise, at the target. Changes nothing but documents."""
    queues = {queue.name: queue for queue in target.queries.queues()}
    for queue in source.queries.queues():
        if how := _unlike_queue(queue, queues.get(queue.name)):
            yield SettingDifference("queue", queue.name, how, is_kept=merged and queue.name in queues)
    tasks = {row.name: row.rules for row in target.queries.tasks()}
    for task in source.queries.tasks():
        if (rules := tasks.get(task.name)) != task.rules:
            how = f"should have {in_words(task.rules)} and has {in_words(rules or TaskRules()) or 'no rules'}"
            yield SettingDifference("task", task.name, how, is_kept=merged and rules is not None)
    yield from _unlike_terms(source, target, merged)
    yield from _differing_documents(source, target)
    schedules = {row.id: row for row in target.schedule_store.all()}
    for row in source.schedule_store.all():
        if (theirs := schedules.get(row.id)) is None:
            yield SettingDifference("schedule", row.id, "is missing")
        elif theirs != row:
            how = f"differs in {', '.join(_differing_fields(row, theirs))}"
            yield SettingDifference("schedule", row.id, how, _is_kept(row, theirs, merged))
        elif lost := len(_missing_occurrences(source, target, row.id)):
            yield SettingDifference("schedule", row.id, f"lacks {lost} of its past runs")


def _unlike_queue(ours: QueueRow, theirs: QueueRow | None) -> str | None:
    if theirs is None:
        return "is missing"
    if ours.paused != theirs.paused:
        return f"should be {'paused' if ours.paused else 'open'} and is not"
    wanted, found = _rules_of(ours), _rules_of(theirs)
    if wanted == found:
        return None
    return f"should have {in_words(wanted) or 'no rules'} and has {in_words(found) or 'no rules'}"


def _rules_of(queue: QueueRow) -> QueueRules:
    return queue_rules(queue.rules)


def _unlike_terms(source: StoreView, target: Engine, merged: bool) -> Iterator[SettingDifference]:
    there = _terms_in(target)
    for key, ours in _terms_in(source).items():
        if (theirs := there.get(key)) != ours:
            how = "is missing" if theirs is None else f"differs in {_differing_terms(ours, theirs)}"
            yield SettingDifference("lifecycle", key, how, is_kept=merged and theirs is not None)


def _differing_documents(source: StoreView, target: Engine) -> Iterator[SettingDifference]:
    """Workers of the source write on, of what they measure and watch: what came since is brought along."""
    for kind, documents in _documents_of(source):
        if late := _missing_documents(target, kind, documents):
            _import_documents(target, kind, late)
            for document in _missing_documents(target, kind, late):
                yield SettingDifference("document", f"{kind} {document.key}", "is missing")


def _differing_terms(ours: PolicyRow, theirs: PolicyRow) -> str:
    unlike = [name for name in ("declared", "ordered") if getattr(ours, name) != getattr(theirs, name)]
    return f"what is {' and '.join(unlike)}"


def _missing_occurrences(source: StoreView, target: Engine, schedule_id: str) -> list[Occurrence]:
    """What became of its times and is at the source only, the newest first."""
    there = set(target.schedule_store.occurrences(schedule_id, _ALL_OCCURRENCES))
    ours = source.schedule_store.occurrences(schedule_id, _ALL_OCCURRENCES)
    return [occurrence for occurrence in ours if occurrence not in there]


def _differing_fields(ours: ScheduleRow, theirs: ScheduleRow) -> list[str]:
    return [name for name in ScheduleRow.__struct_fields__ if getattr(ours, name) != getattr(theirs, name)]
