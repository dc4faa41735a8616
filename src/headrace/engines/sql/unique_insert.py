"""Unique inserts in a SQL database, as steps that any kind of connection can execute.

The same steps run in our transactions and in a caller's, with its library, blocking or asynchronous. A step names a
statement, which must return one value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from headrace.core.jobs.history_texts import REPLACED, RESCHEDULED
from headrace.core.jobs.records import NewJob
from headrace.core.jobs.states import Trigger
from headrace.core.jobs.transfer import StoreStatus
from headrace.core.jobs.unique_rules import InsertResult, UniqueInsert
from headrace.engines.shared.decisions import closed_error, queue_full
from headrace.engines.shared.sql_files import as_json
from headrace.engines.shared.unique_decisions import ExistingJob, JobReplacement, decide
from headrace.engines.sql.records import UniqueLookup
from headrace.engines.sql.transaction import Transaction
from headrace.errors import DuplicateJob, StoreMoved

_found = msgspec.json.Decoder(list[tuple[int, ExistingJob | None]])
_numbers = msgspec.json.Decoder(list[int])
_store_status = msgspec.json.Decoder(StoreStatus)
_names = msgspec.json.Decoder(list[str])
_lengths = msgspec.json.Decoder(list[tuple[str, int]])
R = TypeVar("R")


class Fetch(Struct, frozen=True):
    """A statement, by its name, and its parameters."""

    statement: str
    values: dict[str, Any]


class StoreUnique(Struct, frozen=True):
    """Jobs to insert; the result is for each whether its id was free."""

    jobs: list[NewJob]


Step = Fetch | StoreUnique
Steps = Generator[Step, Any, R]


def run(steps: Steps[R], tx: Transaction) -> R:
    """Run the steps in one transaction."""
    answer: Any = None
    while True:
        try:
            step = steps.send(answer)
        except StopIteration as end:
            result: R = end.value
            return result
        answer = tx.insert(step.jobs) if isinstance(step, StoreUnique) else tx.fetch(step.statement, **step.values)


def insert_unique(
    candidates: Sequence[UniqueInsert], all_or_nothing: bool, lengths: Mapping[str, int], now: int
) -> Steps[list[InsertResult]]:
    """Insert the candidates under their rules; `lengths` are the maximum lengths of queues."""
    keys = sorted({candidate.job.unique_key for candidate in candidates if candidate.rule and candidate.job.unique_key})
    if keys:
        yield Fetch("lock_keys", {"keys": as_json(keys)})
    results: list[InsertResult] = []
    while len(results) < len(candidates):
        results += yield from _insert_some(candidates[len(results) :], all_or_nothing, lengths, now)
    return results


def _insert_some(
    candidates: Sequence[UniqueInsert], all_or_nothing: bool, lengths: Mapping[str, int], now: int
) -> Steps[list[InsertResult]]:
    """Insert as many candidates as one decision covers; none if an existing job changed meanwhile."""
    yield from refuse_if_moved()
    ids = as_json([candidate.job.id for candidate in candidates])
    taken = set(_names.decode((yield Fetch("existing_ids", {"ids": ids}))))
    found = yield from _find(candidates)
    decision = decide(candidates, taken, found)
    results = decision.results
    if all_or_nothing:  # before any write: a caller's transaction may have no savepoint to return to
        _refuse_conflicts(results)
    moving = [change.job for change in decision.changes.values() if change.moves]
    yield from refuse_if_full([*decision.inserts.values(), *moving], lengths)
    if decision.changes:
        seqs = as_json([change.existing.seq for change in decision.changes.values()])
        if len(_numbers.decode((yield Fetch("lock_unstarted", {"seqs": seqs})))) < len(decision.changes):
            return []  # one of them has started since the read: decide again
        yield from _change(list(decision.changes.values()), now)
    if decision.inserts:
        fresh = yield StoreUnique(list(decision.inserts.values()))
        for (place, job), is_fresh in zip(decision.inserts.items(), fresh, strict=True):
            if not is_fresh:
                results[place] = InsertResult("taken", job.id)
    if all_or_nothing:
        _refuse_conflicts(results)
    return results


def refuse_if_moved() -> Steps[None]:
    """Refuse inserts into a store that has moved."""
    store_status = yield Fetch("store_status", {})
    if has_moved(store_status):
        raise StoreMoved(_store_status.decode(store_status).other)


def refuse_if_closed(tx: Transaction, *, deleting: bool = False) -> None:
    """Refuse manual changes while the store is being copied, and keep a copy from starting until this transaction ends.

    Take the dependency lock first; every other path locks in that order.
    """
    # First: a process that sets the store status waits for our writes, but not for our earlier reads.
    tx.run("hold_inserts")
    text = tx.fetch("store_status")
    if text is not None and not (deleting and has_moved(text)):
        raise closed_error(_store_status.decode(text))


def has_moved(store_status: str | None) -> bool:
    """Whether this store status says that the store has moved."""
    return store_status is not None and _store_status.decode(store_status).kind == "moved"


def is_arriving(store_status: str | None) -> bool:
    """Whether this store status says that jobs and dependencies are still arriving."""
    return store_status is not None and _store_status.decode(store_status).kind == "arriving"


def _find(candidates: Sequence[UniqueInsert]) -> Steps[dict[int, ExistingJob]]:
    """The newest existing job for each candidate with a rule, by position."""
    lookups = {
        place: UniqueLookup(candidate.job.unique_key, candidate.rule.conditions, candidate.rule.updates)
        for place, candidate in enumerate(candidates)
        if candidate.rule is not None and candidate.job.unique_key is not None
    }
    if not lookups:
        return {}
    rows = _found.decode((yield Fetch("existing_jobs", {"c": as_json(list(lookups.values()))})))
    places = list(lookups)
    return {places[number]: existing for number, existing in rows if existing is not None}


def refuse_if_full(jobs: Sequence[NewJob], lengths: Mapping[str, int]) -> Steps[None]:
    """Raise QueueFull if a queue with a maximum length is too full for these jobs."""
    added = Counter([job.queue for job in jobs if job.queue in lengths])
    if not added:
        return
    names = as_json(sorted(added))
    yield Fetch("lock_queues", {"names": names})
    waiting = dict(_lengths.decode((yield Fetch("queue_lengths", {"names": names}))))
    if all(waiting[queue] + added[queue] <= lengths[queue] for queue in added):
        return
    # Existing jobs do not count.
    taken = set(_names.decode((yield Fetch("existing_ids", {"ids": as_json([job.id for job in jobs])}))))
    added = Counter([job.queue for job in jobs if job.queue in lengths and job.id not in taken])
    for queue, more in added.items():
        if waiting[queue] + more > lengths[queue]:
            raise queue_full(queue, lengths[queue], waiting[queue], more)


def _refuse_conflicts(results: Sequence[InsertResult]) -> None:
    for result in results:
        if result.kind in ("refused", "taken"):
            raise DuplicateJob(result.id)


def _change(changes: list[JobReplacement], now: int) -> Steps[None]:
    for (target, detail), seqs in _by_target(changes, now).items():
        history_row = {"event": Trigger.UPDATE.value, "target": target, "detail": detail, "now": now}
        yield Fetch("record_changes", {"seqs": as_json(seqs), **history_row})
    if reschedules := _numbered([change for change in changes if not change.replaces_all]):
        yield Fetch("reschedule_jobs", {"p": as_json(reschedules), "now": now})
    if replacements := _numbered([change for change in changes if change.replaces_all]):
        yield Fetch("replace_jobs", {"p": as_json(replacements), "now": now})
        yield Fetch("drop_tags", {"seqs": as_json([row[0] for row in replacements])})
        yield Fetch("add_tags", {"p": as_json(replacements)})
        yield Fetch("add_queues_of", {"p": as_json(replacements), "now": now})


def _by_target(changes: list[JobReplacement], now: int) -> dict[tuple[str, str], list[int]]:
    groups: dict[tuple[str, str], list[int]] = {}
    for change in changes:
        detail = REPLACED if change.replaces_all else RESCHEDULED
        groups.setdefault((change.target(now).value, detail), []).append(change.existing.seq)
    return groups


def _numbered(changes: list[JobReplacement]) -> list[tuple[Any, ...]]:
    return [(change.existing.seq, *msgspec.structs.astuple(change.job)) for change in changes]
